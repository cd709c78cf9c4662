#include "actors/session_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "compiler/compose/compose.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// More are not written: a search has some dozens.
constexpr std::size_t kSeedFilesMax = 200;

std::string folder_of(const std::string& subgraph) {
  return "kernels/" + subgraph + "/session/";
}

bool has_kernel(const SubgraphDone& done) {
  return done.best.verdict.correct &&
         (done.outcome == "won" || done.outcome == "not_faster" ||
          done.outcome == "proven");
}

/// N of the language model's "llm-N"; 0 of another's.
std::size_t number_of(const Seed& seed) {
  std::size_t number = 0;
  const auto dash = seed.id.rfind('-');
  if (seed.origin == "llm" && dash != std::string::npos) {
    std::from_chars(seed.id.data() + dash + 1, seed.id.data() + seed.id.size(),
                    number);
  }
  return number;
}

/// "2026-11-25T18:40:00.250000", UTC.
std::string iso_time(std::int64_t us) {
  using namespace std::chrono;
  const sys_time<microseconds> at{microseconds(us)};
  const auto day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss time(at - day);
  std::array<char, 64> text{};
  std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%06d",
      static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
      static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
      static_cast<int>(time.minutes().count()),
      static_cast<int>(time.seconds().count()),
      static_cast<int>(time.subseconds().count()));
  return text.data();
}

std::string said_of(const SeedResult& result) {
  if (result.failure) return result.failure.message;
  return result.verdict.correct ? "" : result.verdict.reason;
}

/// From the first proposal to the best kernel, a round each.
Result<json> history_of(const SubgraphDone& done,
                        const std::map<std::string, SessionTry>& tries,
                        Blobs& blobs) {
  std::vector<json> rounds;
  std::string id = done.best.seed.id;
  // A parent is older than its child: this ends.
  for (auto found = tries.find(id); found != tries.end();
       found = tries.find(id)) {
    const SessionTry& session_try = found->second;
    const auto source = blobs.get(session_try.result.seed.source);
    if (!source) return std::unexpected(source.error());
    rounds.push_back({{"round", session_try.result.seed.round + 1},
                      {"timestamp", iso_time(session_try.at_us)},
                      {"success", session_try.result.verdict.correct},
                      {"kernel_code", *source},
                      {"stdout", ""},
                      {"stderr", said_of(session_try.result)}});
    if (session_try.result.seed.parent == id) break;
    id = session_try.result.seed.parent;
  }
  std::ranges::reverse(rounds);
  return json(rounds);
}

}  // namespace

Result<std::vector<FileToWrite>> session_files(
    const OptimizeSubgraph& work, const SubgraphDone& done,
    const std::map<std::string, SessionTry>& tries, Blobs& blobs) {
  const auto text = blobs.get(work.graph);
  if (!text) return std::unexpected(text.error());
  auto graph = parse_graph(*text);
  if (!graph) return std::unexpected(graph.error());
  const Subgraph subgraph{work.subgraph, work.signature, work.type,
                          std::move(*graph)};
  const std::string folder = folder_of(work.subgraph);
  std::vector<FileToWrite> files = {
      {folder + "problem.txt", blobs.put(problem_text(subgraph))},
      {folder + "reference.py", blobs.put(reference_source(subgraph))},
      {folder + "test.py", blobs.put(test_source(subgraph))}};
  for (const auto& [id, item] : tries) {
    const Seed& seed = item.result.seed;
    if (seed.origin != "llm" || number_of(seed) >= kSeedFilesMax) continue;
    files.push_back({folder + "seed_" + std::to_string(number_of(seed)) + ".py",
                     seed.source});
  }
  if (!has_kernel(done)) return files;
  const Seed& best = done.best.seed;
  const auto source = blobs.get(best.source);
  if (!source) return std::unexpected(source.error());
  const Target* target = find_target(best.target);
  if (!target) return fail(ErrorCode::failed, "a kernel of no target");
  const std::string module =
      kernel_module_source(subgraph, {*source, best.variant, target});
  auto history = history_of(done, tries, blobs);
  if (!history) return std::unexpected(history.error());
  const json result = {{"worker_id", number_of(best)},
                       {"success", true},
                       {"kernel_code", module},
                       {"rounds", best.round + 1},
                       {"history", std::move(*history)}};
  files.push_back({folder + "final_kernel.py", blobs.put(module)});
  files.push_back(
      {folder + "result.json",
       blobs.put(result.dump(1, ' ', false, json::error_handler_t::replace) +
                 "\n")});
  return files;
}

std::string sessions_summary(const std::vector<SubgraphDone>& all) {
  json rows = json::array();
  for (const SubgraphDone& done : all) {
    json row = {{"id", done.subgraph}, {"success", has_kernel(done)}};
    if (done.llm.rounds > 0) row["session_dir"] = folder_of(done.subgraph);
    if (has_kernel(done)) {
      row["worker_id"] = number_of(done.best.seed);
      row["rounds"] = done.best.seed.round + 1;
      row["kernel_path"] = "kernels/" + done.subgraph + "/kernel.py";
    } else {
      row["message"] =
          done.reason.empty() ? "no candidate was correct" : done.reason;
    }
    rows.push_back(std::move(row));
  }
  return rows.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace weft
