#include "runtime/report/timeline.hpp"

#include <algorithm>
#include <optional>

namespace weft {
namespace {

using nlohmann::json;

/// Shorter waits are the spine's own time.
constexpr std::int64_t kShortestWaitUs = 1'000;

/// The kind of work that a request asks for; empty: none that is shown.
std::string kind_of_request(const Message& message) {
  if (std::holds_alternative<CaptureRequest>(message)) return "capture";
  if (std::holds_alternative<BuildRequest>(message)) return "build";
  if (std::holds_alternative<CheckRequest>(message)) return "check";
  if (std::holds_alternative<TimeRequest>(message)) return "time";
  if (std::holds_alternative<ProbeRequest>(message)) return "probe";
  if (std::holds_alternative<LlmRequest>(message)) return "llm";
  if (std::holds_alternative<WriteFilesRequest>(message)) return "files";
  if (std::holds_alternative<FindKernelRequest>(message)) return "library";
  if (std::holds_alternative<KeepKernelRequest>(message)) return "library";
  return "";
}

/// The failure of a port's reply; nullopt: it is none.
std::optional<std::string> reply_failure(const Message& message) {
  return std::visit(
      [](const auto& m) -> std::optional<std::string> {
        using T = std::decay_t<decltype(m)>;
        if constexpr (requires {
                        m.effect;
                        m.failure.code;
                      }) {
          return T::name.ends_with("Reply") ? std::optional(m.failure.code)
                                            : std::nullopt;
        } else {
          return std::nullopt;
        }
      },
      static_cast<const AnyMessage&>(message));
}

std::string label_of(const Envelope& envelope, const Message& message) {
  if (const auto* m = std::get_if<LlmRequest>(&message)) return m->purpose;
  const std::string seed = seed_of(envelope.src);
  return seed.empty() ? envelope.src : seed;
}

}  // namespace

std::string subgraph_of(const Address& role) {
  const std::string kind = kind_of(role);
  if (kind != "agent" && kind != "worker") return "";
  const std::string instance = instance_of(role);
  return instance.substr(0, instance.find('.'));
}

std::string seed_of(const Address& role) {
  if (kind_of(role) != "worker") return "";
  const std::string instance = instance_of(role);
  const auto dot = instance.find('.');
  return dot == std::string::npos ? "" : instance.substr(dot + 1);
}

void Timeline::close(const Open& open, std::int64_t until_us,
                     std::string failure) {
  auto& [count, total_us] = kinds_[open.kind];
  ++count;
  total_us += until_us - open.at_us;
  if (spans_.size() >= spans_max_) {
    ++left_out_;
    return;
  }
  spans_.push_back({open, until_us, std::move(failure)});
}

void Timeline::take_lease(const Envelope& envelope, const Message& message) {
  if (const auto* m = std::get_if<LeaseRequest>(&message)) {
    waits_[{envelope.src, m->ticket}] = {
        "wait", "", subgraph_of(envelope.src),
        (seed_of(envelope.src).empty() ? envelope.src : seed_of(envelope.src)) +
            " for " + m->resource,
        envelope.at_us};
    return;
  }
  if (const auto* m = std::get_if<LlmCallRequest>(&message)) {
    groups_[{envelope.src, m->ticket}] = m->group;
    waits_[{envelope.src, m->ticket}] = {
        "wait", "", m->group, "call of " + m->provider, envelope.at_us};
    return;
  }
  const auto end = [&](std::uint64_t ticket, const Location& location,
                       std::string failure) {
    auto node = waits_.extract({envelope.dst, ticket});
    if (node.empty()) return;
    node.mapped().location = location;
    if (envelope.at_us - node.mapped().at_us >= kShortestWaitUs) {
      close(node.mapped(), envelope.at_us, std::move(failure));
    }
  };
  if (const auto* m = std::get_if<LeaseGranted>(&message)) {
    end(m->ticket, m->location, "");
  } else if (const auto* m = std::get_if<LeaseDenied>(&message)) {
    end(m->ticket, "", "denied");
  } else if (const auto* m = std::get_if<LlmCallDenied>(&message)) {
    end(m->ticket, "", m->code);
  }
}

void Timeline::take(const Envelope& envelope, const Message& message) {
  const std::string kind = kind_of_request(message);
  if (!kind.empty()) {
    std::string subgraph = subgraph_of(envelope.src);
    if (const auto* m = std::get_if<LlmRequest>(&message)) {
      const auto group = groups_.find({envelope.src, m->effect});
      if (group != groups_.end()) subgraph = group->second;
    }
    requests_[envelope.seq] = {kind, location_of(envelope.dst),
                               std::move(subgraph), label_of(envelope, message),
                               envelope.at_us};
    return;
  }
  if (auto failure = reply_failure(message)) {
    // A second reply is stale: the first one ended it.
    auto node = requests_.extract(envelope.cause);
    if (!node.empty()) {
      close(node.mapped(), envelope.at_us, std::move(*failure));
    }
    return;
  }
  take_lease(envelope, message);
}

json Timeline::to_json(std::int64_t origin_us, std::int64_t now_us) const {
  std::vector<Span> all = spans_;
  for (const auto& [seq, open] : requests_)
    all.push_back({open, now_us, "open"});
  for (const auto& [who, open] : waits_) all.push_back({open, now_us, "open"});
  std::ranges::stable_sort(all, {}, [](const Span& s) { return s.what.at_us; });
  std::map<std::string, std::size_t> lanes = {{"", 0}};
  json names = json::array({"head"});
  json spans = json::array();
  for (const Span& span : all) {
    const auto [location, is_new] =
        lanes.try_emplace(span.what.location, lanes.size());
    if (is_new) names.push_back(span.what.location);
    spans.push_back({span.what.kind, location->second,
                     span.what.at_us - origin_us,
                     std::max<std::int64_t>(0, span.until_us - span.what.at_us),
                     span.what.subgraph, span.what.label, span.failure});
  }
  json kinds = json::object();
  for (const auto& [kind, sum] : kinds_) {
    kinds[kind] = {{"count", sum.first}, {"us", sum.second}};
  }
  return {{"locations", names},
          {"kinds", kinds},
          {"spans", spans},
          {"left_out", left_out_}};
}

}  // namespace weft
