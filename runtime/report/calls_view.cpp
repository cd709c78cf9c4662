#include "runtime/report/calls_view.hpp"

#include "runtime/host/effect_ledger.hpp"

namespace weft {
namespace {

using nlohmann::json;

json usage_json(const LlmUsage& usage) {
  if (!usage.known) return nullptr;
  return {{"input", usage.input},
          {"cached", usage.cached},
          {"cache_written", usage.cache_written},
          {"output", usage.output},
          {"reasoning", usage.reasoning}};
}

}  // namespace

void CallsView::ask(const Envelope& envelope, const LlmRequest& request) {
  ++spent_["calls"];
  if (calls_.size() >= calls_max_) {
    ++left_out_;
    return;
  }
  json parts = json::array();
  for (const LlmPart& part : request.parts) {
    parts.push_back({{"role", part.role}, {"text", part.blob}});
  }
  asked_[envelope.seq] = calls_.size();
  calls_.push_back({{"seq", envelope.seq},
                    {"at_us", envelope.at_us},
                    {"subgraph", groups_[{envelope.src, request.effect}]},
                    {"purpose", request.purpose},
                    {"provider", request.provider},
                    {"samples", request.samples},
                    {"max_tokens", request.max_tokens},
                    {"temperature", request.temperature},
                    {"parts", parts},
                    {"reply", nullptr}});
}

void CallsView::answer(const Envelope& envelope, const LlmReply& reply) {
  if (envelope.dst == stale_address) return;
  ++spent_["answered"];
  if (reply.failure) ++spent_["failed"];
  if (reply.from_cache) ++spent_["from_cache"];
  spent_["input_tokens"] +=
      reply.usage.input + reply.usage.cached + reply.usage.cache_written;
  spent_["cached_tokens"] += reply.usage.cached;
  spent_["output_tokens"] += reply.usage.output + reply.usage.reasoning;
  spent_["reasoning_tokens"] += reply.usage.reasoning;
  spent_["micro_usd"] += reply.micro_usd;
  const auto asked = asked_.find(envelope.cause);
  if (asked == asked_.end()) return;
  answered_[envelope.seq] = asked->second;
  json choices = json::array();
  for (const LlmChoice& choice : reply.choices) {
    choices.push_back(
        {{"text", choice.text}, {"finish_reason", choice.finish_reason}});
  }
  calls_[asked->second]["reply"] = {{"seq", envelope.seq},
                                    {"at_us", envelope.at_us},
                                    {"failure", reply.failure.code},
                                    {"message", reply.failure.message},
                                    {"choices", choices},
                                    {"usage", usage_json(reply.usage)},
                                    {"micro_usd", reply.micro_usd},
                                    {"model", reply.model},
                                    {"request_id", reply.request_id},
                                    {"latency_ms", reply.latency_ms},
                                    {"first_token_ms", reply.first_token_ms},
                                    {"from_cache", reply.from_cache},
                                    {"http_status", reply.http_status},
                                    {"billed_maybe", reply.billed_maybe}};
}

void CallsView::take(const Envelope& envelope, const Message& message) {
  if (const auto* m = std::get_if<LlmCallRequest>(&message)) {
    groups_[{envelope.src, m->ticket}] = m->group;
  } else if (const auto* m = std::get_if<LlmRequest>(&message)) {
    ask(envelope, *m);
  } else if (const auto* m = std::get_if<LlmReply>(&message)) {
    answer(envelope, *m);
  }
}

std::optional<std::size_t> CallsView::call_of_reply(std::uint64_t seq) const {
  const auto found = answered_.find(seq);
  if (found == answered_.end()) return std::nullopt;
  return found->second;
}

json CallsView::spent() const {
  json all = json::object();
  for (const char* name :
       {"calls", "answered", "failed", "from_cache", "input_tokens",
        "cached_tokens", "output_tokens", "reasoning_tokens", "micro_usd"}) {
    const auto found = spent_.find(name);
    all[name] = found == spent_.end() ? 0 : found->second;
  }
  return all;
}

}  // namespace weft
