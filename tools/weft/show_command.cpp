#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/outcome.hpp"
#include "messages/parse_json.hpp"
#include "messages/shown_text.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/candidate_summary.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/envelope_format.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/report_file.hpp"
#include "tools/weft/wait_summary.hpp"

namespace weft {
namespace {

/// What a person wants to know of a run, gathered in one pass.
struct RunSummary {
  std::optional<RunStart> start;
  std::optional<RunFinished> finished;
  std::map<std::string, std::vector<SeedResult>> seeds;  // by subgraph
  std::vector<SubgraphDone> subgraphs;
  WaitSummary waits;
  std::optional<nlohmann::json> origin;  ///< of a fork
  std::uint64_t events = 0;
  std::uint64_t stale = 0;
};

void take(RunSummary& run_summary, const Envelope& envelope) {
  ++run_summary.events;
  if (envelope.dst == "stale") ++run_summary.stale;
  const auto message = decode(envelope.type, envelope.body);
  if (!message) return;
  run_summary.waits.take(envelope, *message);
  if (const auto* m = std::get_if<RunStart>(&*message)) run_summary.start = *m;
  if (const auto* m = std::get_if<RunFinished>(&*message))
    run_summary.finished = *m;
  if (const auto* m = std::get_if<SubgraphDone>(&*message)) {
    run_summary.subgraphs.push_back(*m);
  }
  if (const auto* m = std::get_if<SeedResult>(&*message)) {
    run_summary.seeds[instance_of(envelope.dst)].push_back(*m);
  }
}

/// The results of those seeds that came of `parent`, each with its own below;
/// what was printed before is not there any more.
void print_tree(std::multimap<std::string, const SeedResult*>& by_parent,
                const std::string& parent, std::size_t depth) {
  std::vector<const SeedResult*> here;
  const auto [first, last] = by_parent.equal_range(parent);
  for (auto current = first; current != last; ++current)
    here.push_back(current->second);
  by_parent.erase(first, last);
  for (const SeedResult* result : here) {
    std::printf("%s%s\n", std::string(4 + 2 * depth, ' ').c_str(),
                terminal_line(candidate_line(*result)).c_str());
    print_tree(by_parent, result->seed.id, depth + 1);
  }
}

void print_seeds(const std::vector<SeedResult>& results) {
  std::set<std::string> ids;
  for (const SeedResult& result : results) ids.insert(result.seed.id);
  std::multimap<std::string, const SeedResult*> by_parent;
  for (const SeedResult& result : results) {
    const std::string& parent = result.seed.parent;
    by_parent.emplace(ids.contains(parent) ? parent : "", &result);
  }
  print_tree(by_parent, "", 0);
  // No seed comes of itself; a damaged story is told all the same.
  while (!by_parent.empty()) {
    const std::string parent = by_parent.begin()->first;
    print_tree(by_parent, parent, 0);
  }
}

/// How many seeds of a subgraph were judged: the others were stopped when one
/// was as good as any can be.
int judged(const RunSummary& run_summary, const std::string& subgraph) {
  std::set<std::string> ids;  // the best is timed twice
  const auto seeds = run_summary.seeds.find(subgraph);
  if (seeds == run_summary.seeds.end()) return 0;
  for (const SeedResult& result : seeds->second) ids.insert(result.seed.id);
  return static_cast<int>(ids.size());
}

/// A text as it is, anything else as JSON.
std::string words_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string origin_line(const nlohmann::json& origin) {
  // Of another's journal these may be anything.
  const auto field = [&](const char* name) {
    const auto found = origin.find(name);
    return found == origin.end() ? nlohmann::json() : *found;
  };
  std::string text = "forked from " + words_of(field("run")) + " at event " +
                     words_of(field("seq"));
  for (const auto& setting : field("set")) text += ", " + words_of(setting);
  if (origin.contains("reply")) text += ", with another answer there";
  return terminal_line(text) + "\n";
}

std::string subgraph_line(const RunSummary& run_summary,
                          const SubgraphDone& done) {
  const int verdicts = judged(run_summary, done.subgraph);
  std::string text = "  " + terminal_line(done.subgraph) + "  " +
                     terminal_line(done.outcome) + "  " +
                     std::to_string(done.correct) + " of " +
                     std::to_string(verdicts) + " seeds correct";
  if (done.seeds > verdicts) {
    text += ", " + std::to_string(done.seeds - verdicts) +
            " stopped before their verdict";
  }
  text += "  " + terminal_line(done.reason) + "\n";
  if (done.llm.note.empty()) return text;
  return text + "    language model: " + std::to_string(done.llm.rounds) +
         " rounds, " + std::to_string(done.llm.spent.calls) +
         " calls; ended by: " + terminal_line(done.llm.note) + "\n";
}

void say(const std::string& text) {
  std::printf("%s", terminal_listing(text).c_str());
}

void print(const RunSummary& run_summary, const std::string& only) {
  if (run_summary.origin) say(origin_line(*run_summary.origin));
  if (run_summary.start) {
    say(terminal_line(run_summary.start->problem_name + ", target " +
                      run_summary.start->options.target + ", weft " +
                      run_summary.start->weft_version) +
        "\n");
  }
  for (const SubgraphDone& done : run_summary.subgraphs) {
    if (!only.empty() && done.subgraph != only) continue;
    say(subgraph_line(run_summary, done));
    const auto seeds = run_summary.seeds.find(done.subgraph);
    if (seeds != run_summary.seeds.end()) print_seeds(seeds->second);
  }
  // Of those that have no verdict yet, what was found so far.
  for (const auto& [id, results] : run_summary.seeds) {
    const bool is_done = std::ranges::any_of(
        run_summary.subgraphs,
        [&](const SubgraphDone& done) { return done.subgraph == id; });
    if (is_done || (!only.empty() && id != only)) continue;
    say("  " + terminal_line(id) + "  no verdict yet  " +
        std::to_string(judged(run_summary, id)) + " seeds judged so far\n");
    print_seeds(results);
  }
  if (only.empty())
    say(run_summary.waits.text(run_summary.finished.has_value()));
  say(std::to_string(run_summary.events) + " events, " +
      std::to_string(run_summary.stale) + " stale replies\n");
  say(run_summary.finished
          ? terminal_paragraph(run_summary.finished->summary) + "\n"
          : "not finished: weft resume goes on\n");
}

/// The same for a tool: an object a subgraph, then one for the run.
void print_json(const RunSummary& run_summary, const std::string& only) {
  using nlohmann::json;
  for (const SubgraphDone& done : run_summary.subgraphs) {
    if (!only.empty() && done.subgraph != only) continue;
    json line = {{"subgraph", done.subgraph},
                 {"outcome", done.outcome},
                 {"reason", done.reason},
                 {"seeds", done.seeds},
                 {"judged", judged(run_summary, done.subgraph)},
                 {"correct", done.correct},
                 {"llm_note", done.llm.note},
                 {"results", json::array()}};
    const auto seeds = run_summary.seeds.find(done.subgraph);
    if (seeds != run_summary.seeds.end()) {
      for (const SeedResult& result : seeds->second) {
        line["results"].push_back(candidate_json(result));
      }
    }
    print_line(line);
  }
  json line = {{"origin", run_summary.origin.value_or(json())},
               {"events", run_summary.events},
               {"stale", run_summary.stale},
               {"finished", run_summary.finished.has_value()}};
  line.update(run_summary.waits.json(run_summary.finished.has_value()));
  if (run_summary.finished) {
    line["exit_code"] = run_summary.finished->exit_code;
    line["summary"] = run_summary.finished->summary;
  }
  print_line(line);
}

/// Of one candidate, of which there may be several results: the last counts,
/// for the best is timed once more, longer.
int show_candidate(const CommonFlags& common, const RunSummary& run_summary,
                   const std::string& subgraph, const std::string& id) {
  const SeedResult* found = nullptr;
  const auto seeds = run_summary.seeds.find(subgraph);
  if (seeds != run_summary.seeds.end()) {
    for (const SeedResult& seed_result : seeds->second) {
      if (seed_result.seed.id == id) found = &seed_result;
    }
  }
  if (!found) {
    return report_error(
        common, {ErrorCode::wrong_input, "nothing was found of a candidate '" +
                                             id + "' of '" + subgraph +
                                             "': 'weft show RUN' lists them"});
  }
  if (common.json) {
    print_line(candidate_json(*found));
  } else {
    std::printf("%s", terminal_listing(candidate_text(*found)).c_str());
  }
  return 0;
}

int write_page(const CommonFlags& common, const RunDirectory& run,
               const std::string& wanted) {
  const std::filesystem::path file =
      wanted.empty() ? report_path(run) : std::filesystem::path(wanted);
  const auto written = write_report(run, file);
  if (!written) return report_error(common, written.error());
  if (common.json) {
    const nlohmann::json line = {{"report", file.string()}};
    print_line(line);
  } else {
    std::printf("%s\n", terminal_line(file.string()).c_str());
  }
  return 0;
}

}  // namespace

int show_command(const CommonFlags& common, const ShowFlags& flags) {
  const auto run = RunDirectory::open(flags.run);
  if (!run) return report_error(common, run.error());
  if (flags.html) return write_page(common, *run, *flags.html);
  const auto journal = Journal::open_read_only(run->journal());
  if (!journal) return report_error(common, journal.error());
  const auto slash = flags.subgraph.find('/');
  const std::string subgraph = flags.subgraph.substr(0, slash);
  RunSummary run_summary;
  if (const auto origin = journal->meta("origin")) {
    auto about = parse_json(*origin);
    if (about.is_object()) run_summary.origin = std::move(about);
  }
  std::uint64_t shown = 0;
  const auto read = journal->read(1, [&](const Envelope& envelope) {
    take(run_summary, envelope);
    if (!subgraph.empty() && !concerns(envelope, subgraph)) return true;
    ++shown;
    if (flags.events) {
      const std::size_t body_max = common.verbose ? 1 << 20 : 160;
      std::printf("%s\n", common.json
                              ? envelope_json(envelope).c_str()
                              : format_envelope(envelope, body_max).c_str());
    }
    return true;
  });
  if (!read) return report_error(common, read.error());
  // What was found of kernels is not told of a file that is damaged elsewhere.
  if (const auto sound = journal->verify(); !sound) {
    return report_error(common, sound.error());
  }
  if (!subgraph.empty() && shown == 0) {
    return report_error(common, {ErrorCode::wrong_input,
                                 "the run has no subgraph '" + subgraph +
                                     "': 'weft show' lists them"});
  }
  if (flags.events) return 0;
  if (slash != std::string::npos) {
    return show_candidate(common, run_summary, subgraph,
                          flags.subgraph.substr(slash + 1));
  }
  (common.json ? print_json : print)(run_summary, subgraph);
  return 0;
}

}  // namespace weft
