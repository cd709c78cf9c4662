#include <nlohmann/json.hpp>

#include "runtime/export/exports.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

using nlohmann::json;

// Of OTLP's Span.SpanKind and Status.StatusCode.
constexpr int kInternal = 1;
constexpr int kClient = 3;
constexpr int kStatusError = 2;

/// Attributes as OTLP has them; what is empty is left out.
class Attributes {
 public:
  void text(const char* name, const json& value) {
    if (!value.is_string() || value == "") return;
    add(name, {{"stringValue", value}});
  }
  /// 64-bit numbers are strings in protobuf's JSON.
  void whole(const char* name, const json& value) {
    if (!value.is_number_integer()) return;
    add(name, {{"intValue", std::to_string(value.get<std::int64_t>())}});
  }
  void number(const char* name, double value) {
    add(name, {{"doubleValue", value}});
  }
  void flag(const char* name, bool value) { add(name, {{"boolValue", value}}); }
  void texts(const char* name, const std::vector<std::string>& values) {
    json list = json::array();
    for (const auto& value : values) list.push_back({{"stringValue", value}});
    add(name, {{"arrayValue", {{"values", list}}}});
  }
  json to_json() const { return all_; }

 private:
  void add(const char* name, json value) {
    all_.push_back({{"key", name}, {"value", std::move(value)}});
  }
  json all_ = json::array();
};

std::string nanoseconds(const json& us) {
  return std::to_string(us.get<std::int64_t>()) + "000";
}

/// Spans of one run. The same journal gives the same numbers, so that what is
/// sent twice is one trace.
class Spans {
 public:
  explicit Spans(const json& view)
      : view_(view),
        trace_(content_hash("weft trace " + view["begun_us"].dump() +
                            view["environment"].dump(
                                -1, ' ', false, json::error_handler_t::replace))
                   .substr(0, 32)) {}

  std::string id(const std::string& name) const {
    return content_hash(trace_ + name).substr(0, 16);
  }

  json span(const std::string& name, const std::string& key,
            const std::string& parent, int kind, const json& begin,
            const json& end, const Attributes& attributes) const {
    return {{"traceId", trace_},
            {"spanId", id(key)},
            {"parentSpanId", parent.empty() ? "" : id(parent)},
            {"name", name},
            {"kind", kind},
            {"startTimeUnixNano", nanoseconds(begin)},
            {"endTimeUnixNano",
             nanoseconds(end.is_null() ? view_["last_us"] : end)},
            {"attributes", attributes.to_json()},
            {"status", json::object()}};
  }

 private:
  const json& view_;
  std::string trace_;
};

json run_span(const json& view, const Spans& spans) {
  Attributes attributes;
  attributes.text("weft.problem", view["problem"]);
  attributes.text("weft.target", view["target"]);
  const json& finished = view["finished"];
  if (finished.is_object()) {
    attributes.whole("weft.exit_code", finished["exit_code"]);
    attributes.text("weft.summary", finished["summary"]);
  }
  json span = spans.span("weft run", "run", "", kInternal, view["begun_us"],
                         view["last_us"], attributes);
  if (finished.is_object() && finished["exit_code"] != 0) {
    span["status"] = {{"code", kStatusError}, {"message", finished["summary"]}};
  }
  return span;
}

json subgraph_span(const json& subgraph, const Spans& spans) {
  Attributes attributes;
  attributes.text("weft.subgraph", subgraph["id"]);
  attributes.text("weft.type", subgraph["type"]);
  attributes.text("weft.outcome", subgraph["outcome"]);
  attributes.text("weft.best", subgraph["best"]);
  attributes.whole("weft.candidates", subgraph["candidates"].size());
  return spans.span("optimize " + subgraph["type"].get<std::string>(),
                    "subgraph " + subgraph["id"].get<std::string>(), "run",
                    kInternal, subgraph["begun_us"], subgraph["ended_us"],
                    attributes);
}

void add_reply(const json& reply, Attributes& attributes, json& status) {
  attributes.text("gen_ai.response.model", reply["model"]);
  attributes.text("gen_ai.response.id", reply["request_id"]);
  std::vector<std::string> reasons;
  for (const json& choice : reply["choices"]) {
    reasons.push_back(choice["finish_reason"].get<std::string>());
  }
  attributes.texts("gen_ai.response.finish_reasons", reasons);
  if (reply["first_token_ms"].get<std::int64_t>() > 0) {
    attributes.number("gen_ai.response.time_to_first_chunk",
                      reply["first_token_ms"].get<double>() / 1e3);
  }
  const json& usage = reply["usage"];
  if (usage.is_object()) {
    // The conventions count cached input as input, and reasoning as output.
    const auto of = [&](const char* n) { return usage[n].get<std::int64_t>(); };
    attributes.whole("gen_ai.usage.input_tokens",
                     of("input") + of("cached") + of("cache_written"));
    attributes.whole("gen_ai.usage.output_tokens",
                     of("output") + of("reasoning"));
    attributes.whole("gen_ai.usage.cache_read.input_tokens", usage["cached"]);
    attributes.whole("gen_ai.usage.cache_creation.input_tokens",
                     usage["cache_written"]);
    attributes.whole("gen_ai.usage.reasoning.output_tokens",
                     usage["reasoning"]);
  }
  attributes.number("weft.cost_usd", reply["micro_usd"].get<double>() / 1e6);
  attributes.flag("weft.from_cache", reply["from_cache"].get<bool>());
  attributes.text("error.type", reply["failure"]);
  if (reply["failure"] != "") {
    status = {{"code", kStatusError}, {"message", reply["message"]}};
  }
}

/// The settings of the provider that a call was for; null where the run's
/// options do not have it.
json provider_settings(const json& view, const json& call) {
  const json& options = view["environment"].value("options", json());
  if (!options.is_object() || !options.contains("llm")) return nullptr;
  for (const json& provider :
       options["llm"].value("providers", json::array())) {
    if (provider.value("name", "") == call["provider"]) return provider;
  }
  return nullptr;
}

/// What the conventions call whoever answers; a dialect of ours says it best.
std::string provider_of(const json& settings) {
  return settings.value("dialect", "") == "anthropic" ? "anthropic" : "openai";
}

json call_span(const json& view, const json& call, const Spans& spans) {
  Attributes attributes;
  const json settings = provider_settings(view, call);
  const auto name = call["provider"].get<std::string>();
  const std::string model =
      settings.is_object() ? settings.value("model", "") : name;
  attributes.text("gen_ai.operation.name", "chat");
  attributes.text("gen_ai.provider.name",
                  settings.is_object() ? provider_of(settings) : name);
  attributes.text("gen_ai.request.model", model);
  attributes.whole("gen_ai.request.max_tokens", call["max_tokens"]);
  attributes.whole("gen_ai.request.choice.count", call["samples"]);
  if (call["temperature"].is_number() && call["temperature"] >= 0) {
    attributes.number("gen_ai.request.temperature",
                      call["temperature"].get<double>());
  }
  attributes.text("weft.subgraph", call["subgraph"]);
  attributes.text("weft.purpose", call["purpose"]);
  attributes.text("weft.provider", call["provider"]);
  const json& reply = call["reply"];
  json status = json::object();
  if (reply.is_object()) add_reply(reply, attributes, status);
  const auto subgraph = call["subgraph"].get<std::string>();
  json span = spans.span(
      "chat " + model, "call " + call["seq"].dump(),
      subgraph.empty() ? "run" : "subgraph " + subgraph, kClient, call["at_us"],
      reply.is_object() ? reply["at_us"] : json(), attributes);
  span["status"] = status;
  return span;
}

}  // namespace

std::string otlp_export(const json& view) {
  const Spans spans(view);
  json all = json::array({run_span(view, spans)});
  for (const json& subgraph : view["subgraphs"]) {
    if (!subgraph["begun_us"].is_null()) {
      all.push_back(subgraph_span(subgraph, spans));
    }
  }
  for (const json& call : view["calls"]) {
    all.push_back(call_span(view, call, spans));
  }
  Attributes resource;
  resource.text("service.name", "weft");
  if (view["environment"].is_object()) {
    resource.text("service.version", view["environment"]["weft"]);
  }
  const json request = {
      {"resourceSpans",
       json::array(
           {{{"resource", {{"attributes", resource.to_json()}}},
             {"scopeSpans", json::array({{{"scope", {{"name", "weft"}}},
                                          {"spans", std::move(all)}}})}}})}};
  return request.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

}  // namespace weft
