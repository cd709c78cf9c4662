#include "runtime/ui/answers.hpp"

#include <utility>

#include "messages/parse_json.hpp"
#include "runtime/report/subgraphs_view.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kLookedIntoMax = 200;
constexpr std::size_t kCausesMax = 200;
constexpr std::size_t kConsequencesMax = 200;

json head_of(const Envelope& envelope) {
  return {{"seq", envelope.seq},     {"cause", envelope.cause},
          {"at_us", envelope.at_us}, {"src", envelope.src},
          {"dst", envelope.dst},     {"type", envelope.type}};
}

json heads_of(const std::vector<Envelope>& envelopes) {
  json heads = json::array();
  for (const Envelope& envelope : envelopes) heads.push_back(head_of(envelope));
  return heads;
}

}  // namespace

json run_answer(const RunIndex::Run& run) {
  const RunCounters& run_counters = run.run_counters;
  json about = {{"id", run.entry.id},
                {"folder", run.entry.folder.string()},
                {"events", run_counters.events},
                {"first_us", run_counters.first_us},
                {"last_us", run_counters.last_us},
                {"subgraphs", run_counters.subgraphs},
                {"outcomes", run_counters.outcomes},
                {"verdicts", run_counters.verdicts},
                {"micro_usd", run_counters.micro_usd}};
  if (run_counters.start) {
    about["problem"] = run_counters.start->problem_name;
    about["target"] = run_counters.start->options.target;
  }
  about["finished"] = run_counters.finished.has_value();
  if (run_counters.finished) {
    about["exit_code"] = run_counters.finished->exit_code;
    about["summary"] = run_counters.finished->summary;
  }
  const auto origin = run.journal.meta("origin");
  if (origin) about["origin"] = parse_json(*origin);
  return about;
}

json RunList::answer(RunIndex& run_index) {
  const auto entries = run_index.list();
  const std::lock_guard lock(mutex_);
  std::map<std::string, Known> now;
  json runs = json::array();
  for (const RunIndex::Entry& entry : entries) {
    if (runs.size() >= kLookedIntoMax) break;
    auto known = known_.find(entry.id);
    if (known != known_.end() && known->second.changed == entry.changed) {
      runs.push_back(known->second.about);
      now.insert(*known);
      continue;
    }
    json about;
    const auto used = run_index.with(
        entry.id, [&](RunIndex::Run& run) { about = run_answer(run); });
    if (!used) {
      about = {{"id", entry.id},
               {"folder", entry.folder.string()},
               {"error", used.error().message}};
    }
    runs.push_back(about);
    now[entry.id] = {entry.changed, std::move(about)};
  }
  known_ = std::move(now);
  const std::size_t more = entries.size() - runs.size();
  return {{"runs", std::move(runs)}, {"more", more}};
}

Result<json> moment_answer(RunIndex::Run& run, std::uint64_t at) {
  const auto moment = run.journal_reader.moment(at);
  if (!moment) return std::unexpected(moment.error());
  const auto causes = run.journal_reader.causes(at, kCausesMax);
  if (!causes) return std::unexpected(causes.error());
  const auto consequences =
      run.journal_reader.consequences(at, kConsequencesMax);
  if (!consequences) return std::unexpected(consequences.error());
  json answer = {{"last", run.run_counters.events},
                 {"event", head_of(moment->event)},
                 {"body", fields_of(moment->event)},
                 {"causes", heads_of(*causes)},
                 {"said", heads_of(*consequences)},
                 {"roles", moment->roles},
                 {"unanswered", heads_of(moment->unanswered)}};
  // Before it was told of anything it has no state; and this weft's may decide
  // otherwise than the one that made the run.
  const auto broker = run.journal_reader.state(address::broker, at);
  answer["broker"] = broker ? (*broker)["state"] : json();
  if (!broker) answer["broker_unknown"] = broker.error().message;
  return answer;
}

}  // namespace weft
