#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/outcome.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/report_file.hpp"
#include "tools/weft/story.hpp"
#include "tools/weft/waits_story.hpp"

namespace weft {
namespace {

/// What a person wants to know of a run, gathered in one pass.
struct Story {
  std::optional<RunStart> start;
  std::optional<RunFinished> finished;
  std::map<std::string, std::vector<SeedResult>> seeds;  // by subgraph
  std::vector<SubgraphDone> subgraphs;
  WaitsStory waits;
  std::optional<nlohmann::json> origin;  ///< of a fork
  std::uint64_t events = 0;
  std::uint64_t stale = 0;
};

void take(Story& story, const Envelope& envelope) {
  ++story.events;
  if (envelope.dst == "stale") ++story.stale;
  const auto message = decode(envelope.type, envelope.body);
  if (!message) return;
  story.waits.take(envelope, *message);
  if (const auto* m = std::get_if<RunStart>(&*message)) story.start = *m;
  if (const auto* m = std::get_if<RunFinished>(&*message)) story.finished = *m;
  if (const auto* m = std::get_if<SubgraphDone>(&*message)) {
    story.subgraphs.push_back(*m);
  }
  if (const auto* m = std::get_if<SeedResult>(&*message)) {
    story.seeds[instance_of(envelope.dst)].push_back(*m);
  }
}

std::string seed_line(const SeedResult& result) {
  std::string text = result.seed.id + "  " + result.seed.variant + "  ";
  if (result.seed.round > 0) {
    text += "round " + std::to_string(result.seed.round) + "  ";
  }
  if (result.failure) return text + "not verified: " + result.failure.message;
  if (!result.verdict.correct) {
    return text + result.verdict.kind + ": " + result.verdict.reason;
  }
  char numbers[160];
  std::snprintf(numbers, sizeof numbers,
                "%s, error %.2g (framework %.2g), %.3f ms, %.2fx over eager",
                result.verdict.kind.c_str(), result.verdict.max_error,
                result.verdict.framework_error,
                result.timing.candidate.median_us / 1000,
                result.timing.over_eager.ratio);
  return text + (result.timed ? numbers : result.verdict.kind);
}

/// The results of those seeds that came of `parent`, each with its own below;
/// what was printed before is not there any more.
void print_tree(std::multimap<std::string, const SeedResult*>& by_parent,
                const std::string& parent, std::size_t depth) {
  std::vector<const SeedResult*> here;
  const auto [first, last] = by_parent.equal_range(parent);
  for (auto one = first; one != last; ++one) here.push_back(one->second);
  by_parent.erase(first, last);
  for (const SeedResult* result : here) {
    std::printf("%s%s\n", std::string(4 + 2 * depth, ' ').c_str(),
                seed_line(*result).c_str());
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
int judged(const Story& story, const std::string& subgraph) {
  std::set<std::string> ids;  // the best is timed twice
  const auto seeds = story.seeds.find(subgraph);
  if (seeds == story.seeds.end()) return 0;
  for (const SeedResult& result : seeds->second) ids.insert(result.seed.id);
  return static_cast<int>(ids.size());
}

void print(const Story& story, const std::string& only) {
  if (story.origin) {
    std::printf("forked from %s at event %llu",
                story.origin->value("run", "").c_str(),
                story.origin->value("seq", 0ull));
    for (const auto& setting : story.origin->value("set", nlohmann::json())) {
      std::printf(", %s", setting.get<std::string>().c_str());
    }
    std::printf("%s\n", story.origin->contains("reply")
                            ? ", with another answer there"
                            : "");
  }
  if (story.start) {
    std::printf("%s, target %s, weft %s\n", story.start->problem_name.c_str(),
                story.start->options.target.c_str(),
                story.start->weft_version.c_str());
  }
  for (const SubgraphDone& done : story.subgraphs) {
    if (!only.empty() && done.subgraph != only) continue;
    const int verdicts = judged(story, done.subgraph);
    std::printf("  %s  %s  %d of %d seeds right", done.subgraph.c_str(),
                done.outcome.c_str(), done.right, verdicts);
    if (done.seeds > verdicts) {
      std::printf(", %d stopped before their verdict", done.seeds - verdicts);
    }
    std::printf("  %s\n", done.reason.c_str());
    const auto seeds = story.seeds.find(done.subgraph);
    if (seeds == story.seeds.end()) continue;
    print_seeds(seeds->second);
  }
  if (only.empty()) {
    std::printf("%s", story.waits.text(story.finished.has_value()).c_str());
  }
  std::printf("%llu events, %llu stale replies\n",
              static_cast<unsigned long long>(story.events),
              static_cast<unsigned long long>(story.stale));
  std::printf("%s\n", story.finished ? story.finished->summary.c_str()
                                     : "not finished: weft resume goes on");
}

/// The same for a tool: an object a subgraph, then one for the run.
void print_json(const Story& story, const std::string& only) {
  using nlohmann::json;
  for (const SubgraphDone& done : story.subgraphs) {
    if (!only.empty() && done.subgraph != only) continue;
    json line = {{"subgraph", done.subgraph},
                 {"outcome", done.outcome},
                 {"reason", done.reason},
                 {"seeds", done.seeds},
                 {"judged", judged(story, done.subgraph)},
                 {"right", done.right},
                 {"results", json::array()}};
    const auto seeds = story.seeds.find(done.subgraph);
    if (seeds != story.seeds.end()) {
      for (const SeedResult& result : seeds->second) {
        line["results"].push_back(
            {{"seed", result.seed.id},
             {"origin", result.seed.origin},
             {"parent", result.seed.parent},
             {"round", result.seed.round},
             {"variant", result.seed.variant},
             {"kind", result.verdict.kind},
             {"reason",
              result.failure ? result.failure.message : result.verdict.reason},
             {"max_error", result.verdict.max_error},
             {"candidate_us", result.timing.candidate.median_us},
             {"eager_us", result.timing.eager.median_us}});
      }
    }
    std::printf("%s\n", line.dump().c_str());
  }
  json line = {{"origin", story.origin.value_or(json())},
               {"events", story.events},
               {"stale", story.stale},
               {"finished", story.finished.has_value()}};
  line.update(story.waits.json(story.finished.has_value()));
  if (story.finished) {
    line["exit_code"] = story.finished->exit_code;
    line["summary"] = story.finished->summary;
  }
  std::printf("%s\n", line.dump().c_str());
}

int write_page(const CommonFlags& common, const RunDirectory& run,
               const std::string& wanted) {
  const std::filesystem::path file =
      wanted.empty() ? report_path(run) : std::filesystem::path(wanted);
  const auto written = write_report(run, file);
  if (!written) return report_error(common, written.error());
  if (common.json) {
    const nlohmann::json line = {{"report", file.string()}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("%s\n", file.c_str());
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
  Story story;
  if (const auto origin = journal->meta("origin")) {
    auto about = nlohmann::json::parse(*origin, nullptr, false);
    if (about.is_object()) story.origin = std::move(about);
  }
  std::uint64_t shown = 0;
  const auto read = journal->read(1, [&](const Envelope& envelope) {
    take(story, envelope);
    if (!flags.subgraph.empty() && !concerns(envelope, flags.subgraph)) {
      return true;
    }
    ++shown;
    if (flags.events) {
      const std::size_t body_max = common.verbose ? 1 << 20 : 160;
      std::printf("%s\n", common.json ? story_json(envelope).c_str()
                                      : story_line(envelope, body_max).c_str());
    }
    return true;
  });
  if (!read) return report_error(common, read.error());
  // What was found of kernels is not told of a file that is damaged elsewhere.
  if (const auto sound = journal->verify(); !sound) {
    return report_error(common, sound.error());
  }
  if (!flags.subgraph.empty() && shown == 0) {
    return report_error(common, {ErrorCode::wrong_input,
                                 "the run has no subgraph '" + flags.subgraph +
                                     "': 'weft show' lists them"});
  }
  if (flags.events) return 0;
  (common.json ? print_json : print)(story, flags.subgraph);
  return 0;
}

}  // namespace weft
