#include "tools/weft/wait_summary.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "actors/llm/calls.hpp"
#include "messages/formatted.hpp"
#include "messages/shown_text.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// A wait that a person would notice.
constexpr std::int64_t kNoticedUs = 1'000'000;

std::string seconds(std::int64_t us) {
  return formatted("%.1f s", static_cast<double>(us) / 1e6);
}

std::int64_t median(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string clock_time(std::int64_t us) {
  const std::time_t at = us / 1'000'000;
  std::tm local{};
  localtime_r(&at, &local);
  char text[16];
  std::strftime(text, sizeof text, "%H:%M:%S", &local);
  return text;
}

json usage_json(const LlmUsage& usage) {
  return {{"input", usage.input},
          {"cached", usage.cached},
          {"cache_written", usage.cache_written},
          {"output", usage.output},
          {"reasoning", usage.reasoning}};
}

}  // namespace

void WaitSummary::begin(const Ticket& ticket, Waiting waiting) {
  waiting_[ticket] = std::move(waiting);
}

void WaitSummary::end(const Ticket& ticket, std::int64_t at_us) {
  const auto node = waiting_.extract(ticket);
  if (node.empty()) return;
  const std::int64_t us =
      std::max<std::int64_t>(0, at_us - node.mapped().since_us);
  Waited& all = waited_[node.mapped().what];
  ++all.times;
  all.us += us;
  all.longest_us = std::max(all.longest_us, us);
}

void WaitSummary::take(const Envelope& envelope, const Message& message) {
  last_us_ = envelope.at_us;
  if (const auto* m = std::get_if<LeaseRequest>(&message)) {
    begin({envelope.src, m->ticket}, {m->resource, m->group, envelope.at_us});
  } else if (const auto* m = std::get_if<LlmCallRequest>(&message)) {
    const Ticket ticket{envelope.src, m->ticket};
    asked_[ticket] = *m;
    begin(ticket, {"calls of " + m->provider, m->group,
                   std::max(envelope.at_us, m->not_before_us)});
  } else if (const auto* m = std::get_if<LeaseGranted>(&message)) {
    end({envelope.dst, m->ticket}, envelope.at_us);
  } else if (const auto* m = std::get_if<LeaseDenied>(&message)) {
    end({envelope.dst, m->ticket}, envelope.at_us);
  } else if (const auto* m = std::get_if<LlmCallDenied>(&message)) {
    end({envelope.dst, m->ticket}, envelope.at_us);
  } else if (const auto* m = std::get_if<LeaseReleased>(&message)) {
    end({envelope.src, m->ticket}, envelope.at_us);
  } else if (const auto* m = std::get_if<LlmCallSettled>(&message)) {
    const Ticket ticket{envelope.src, m->ticket};
    end(ticket, envelope.at_us);
    const auto asked = asked_.find(ticket);
    if (asked == asked_.end()) return;
    for (Calls* calls :
         {&providers_[asked->second.provider], &groups_[asked->second.group]}) {
      calls->tokens += m->tokens;
      calls->micro_usd += m->micro_usd;
    }
  } else if (const auto* m = std::get_if<LlmRequest>(&message)) {
    under_way_[{envelope.src, m->effect}] = {"a call of " + m->provider,
                                             m->purpose, envelope.at_us};
  } else if (const auto* m = std::get_if<LlmReply>(&message)) {
    under_way_.erase({envelope.dst, m->effect});
    const auto asked = asked_.find({envelope.dst, m->effect});
    if (asked == asked_.end()) return;
    for (Calls* calls :
         {&providers_[asked->second.provider], &groups_[asked->second.group]}) {
      ++calls->count;
      calls->from_cache += m->from_cache ? 1 : 0;
      if (m->failure) ++calls->failures[m->failure.code];
      if (!m->failure && !m->usage.known) ++calls->without_usage;
      calls->usage.input += m->usage.input;
      calls->usage.cached += m->usage.cached;
      calls->usage.cache_written += m->usage.cache_written;
      calls->usage.output += m->usage.output;
      calls->usage.reasoning += m->usage.reasoning;
      if (m->failure || m->from_cache) continue;
      calls->latency_ms.push_back(m->latency_ms);
      calls->first_token_ms.push_back(m->first_token_ms);
    }
  }
}

std::string WaitSummary::text(bool is_over) const {
  std::string text;
  for (const auto& [name, calls] : providers_) {
    text += "language model " + terminal_line(name) + ": " +
            std::to_string(calls.count) + " calls";
    if (calls.from_cache > 0) {
      text += ", " + std::to_string(calls.from_cache) + " of them cached";
    }
    for (const auto& [code, count] : calls.failures) {
      text += ", " + std::to_string(count) + " " + terminal_line(code);
    }
    const LlmUsage& usage = calls.usage;
    text += "\n  tokens in " + std::to_string(usage.input) + ", cached " +
            std::to_string(usage.cached) + ", written to the cache " +
            std::to_string(usage.cache_written) + ", out " +
            std::to_string(usage.output) + ", reasoning " +
            std::to_string(usage.reasoning);
    if (calls.without_usage > 0) {
      text += " (" + std::to_string(calls.without_usage) +
              " answers did not report tokens)";
    }
    text += "; counted " + std::to_string(calls.tokens) + ", " +
            dollars(calls.micro_usd) + "\n  answers after " +
            std::to_string(median(calls.latency_ms)) +
            " ms in the median, first token after " +
            std::to_string(median(calls.first_token_ms)) + " ms\n";
  }
  for (const auto& [group, calls] : groups_) {
    text += "  " + (group.empty() ? "the run" : terminal_line(group)) + ": " +
            std::to_string(calls.count) + " calls, " +
            std::to_string(calls.tokens) + " tokens, " +
            dollars(calls.micro_usd) + "\n";
  }
  for (const auto& [what, all] : waited_) {
    if (all.us < kNoticedUs) continue;
    text += "waited for " + terminal_line(what) + ": " +
            std::to_string(all.times) + " times, " + seconds(all.us) +
            " in all, " + seconds(all.longest_us) + " at most\n";
  }
  if (is_over) return text;
  for (const auto& [ticket, item] : under_way_) {
    text += terminal_line(item.what) +
            " is under way: " + terminal_line(item.group) + ", since " +
            clock_time(item.since_us) + " (" +
            seconds(std::max<std::int64_t>(0, last_us_ - item.since_us)) +
            " at the last event)\n";
  }
  for (const auto& [ticket, item] : waiting_) {
    text += "waits for " + terminal_line(item.what) + ": " +
            terminal_line(item.group.empty() ? ticket.first : item.group) +
            ", since " + clock_time(item.since_us) + " (" +
            seconds(std::max<std::int64_t>(0, last_us_ - item.since_us)) +
            " at the last event)\n";
  }
  return text;
}

nlohmann::json WaitSummary::json(bool is_over) const {
  using nlohmann::json;
  const auto answer = [](const std::map<std::string, Calls>& all) {
    json object = json::object();
    for (const auto& [name, calls] : all) {
      object[name] = {{"calls", calls.count},
                      {"from_cache", calls.from_cache},
                      {"failures", calls.failures},
                      {"usage", usage_json(calls.usage)},
                      {"answers_without_usage", calls.without_usage},
                      {"tokens", calls.tokens},
                      {"usd", static_cast<double>(calls.micro_usd) / 1e6},
                      {"latency_ms", median(calls.latency_ms)},
                      {"first_token_ms", median(calls.first_token_ms)}};
    }
    return object;
  };
  json waited = json::object();
  for (const auto& [what, all] : waited_) {
    waited[what] = {{"times", all.times},
                    {"ms", all.us / 1000},
                    {"longest_ms", all.longest_us / 1000}};
  }
  json waiting = json::array();
  if (!is_over) {
    for (const auto& [ticket, item] : waiting_) {
      waiting.push_back({{"who", ticket.first},
                         {"subgraph", item.group},
                         {"what", item.what},
                         {"since_us", item.since_us}});
    }
    for (const auto& [ticket, item] : under_way_) {
      waiting.push_back({{"who", ticket.first},
                         {"purpose", item.group},
                         {"what", item.what},
                         {"since_us", item.since_us}});
    }
  }
  return {{"llm", answer(providers_)},
          {"llm_by_subgraph", answer(groups_)},
          {"waited", waited},
          {"waiting", waiting}};
}

}  // namespace weft
