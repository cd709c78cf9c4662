// What the roles know that have to do with language models.
#include "actors/llm/calls.hpp"
#include "actors/llm/quota.hpp"
#include "actors/llm/search.hpp"
#include "actors/llm/seeds.hpp"
#include "actors/state/state_json.hpp"

namespace weft {

using nlohmann::json;

json LlmQuota::describe() const {
  const auto budget = [](const Budget& of) {
    return json{{"spent_micro_usd", of.spent_micro_usd},
                {"spent_tokens", of.spent_tokens},
                {"reserved_micro_usd", of.reserved_micro_usd},
                {"reserved_tokens", of.reserved_tokens}};
  };
  json providers = json::object();
  for (const auto& [name, provider] : providers_) {
    providers[name] = {{"calls", provider.used},
                       {"calls_max", provider.window},
                       {"blocked_until_us", provider.blocked_until_us},
                       {"calls_of_the_minute", provider.minute.size()},
                       {"requests_paced_us", provider.requests_paced_us},
                       {"tokens_paced_us", provider.tokens_paced_us},
                       {"closed", provider.closed}};
  }
  json waiting = json::array();
  for (const Waiting& entry : waiting_) {
    waiting.push_back({{"holder", entry.ticket.first},
                       {"ticket", entry.ticket.second},
                       {"since_us", entry.since_us},
                       {"provider", entry.request.provider},
                       {"group", entry.request.group},
                       {"priority", entry.request.priority},
                       {"tokens", entry.request.tokens},
                       {"micro_usd", entry.request.micro_usd},
                       {"not_before_us", entry.request.not_before_us}});
  }
  json calls = json::array();
  for (const auto& [ticket, lease] : leases_) {
    calls.push_back({{"holder", ticket.first},
                     {"ticket", ticket.second},
                     {"provider", lease.provider},
                     {"group", lease.group},
                     {"tokens", lease.tokens},
                     {"micro_usd", lease.micro_usd},
                     {"granted_us", lease.granted_us}});
  }
  json groups = json::object();
  for (const auto& [group, of] : groups_) groups[group] = budget(of);
  return {{"providers", std::move(providers)}, {"waiting", std::move(waiting)},
          {"calls", std::move(calls)},         {"denied", denied_.size()},
          {"options", to_state(options_)},     {"run", budget(run_)},
          {"groups", std::move(groups)},       {"served", served_},
          {"next_number", next_number_},       {"next_served", next_served_}};
}

json LlmCalls::describe() const {
  json calls = json::array();
  for (const auto& [effect, open] : open_) {
    const bool has_provider = open.which < open.providers.size();
    const auto whole = wholes_.find(open.id);
    calls.push_back(
        {{"effect", effect},
         {"call", open.id},
         {"parts_left", whole == wholes_.end() ? 1 : whole->second.left},
         {"group", open.call.group},
         {"purpose", open.call.purpose},
         {"samples", open.call.samples},
         {"provider",
          has_provider ? json(open.providers[open.which].name) : json()},
         {"tries_left", open.tries},
         {"is_granted", open.granted},
         {"is_cancelled", open.cancelled},
         {"tokens_max", open.tokens},
         {"micro_usd_max", open.micro_usd},
         {"spent", to_state(open.spent)}});
  }
  return calls;
}

json LlmSearch::describe() const {
  return {{"is_wanted", wanted_},         {"replies_awaited", open_},
          {"rounds_in_vain", fruitless_}, {"slowness", slowness_},
          {"error_text", error_text_},    {"summary", to_state(summary_)}};
}

json LlmSeeds::describe() const {
  json asked = json::array();
  for (const auto& [call, item] : asked_) {
    asked.push_back({{"call", call},
                     {"by", item.by},
                     {"subgraph", item.subgraph},
                     {"parent", item.parent},
                     {"method", item.method},
                     {"round", item.round}});
  }
  json seen = json::object();
  for (const auto& [subgraph, keys] : seen_) seen[subgraph] = keys.size();
  return {{"asked", std::move(asked)},
          {"distinct_texts", std::move(seen)},
          {"seeds", count_},
          {"calls", calls_.describe()}};
}

}  // namespace weft
