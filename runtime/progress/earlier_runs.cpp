#include "runtime/progress/earlier_runs.hpp"

#include <algorithm>
#include <system_error>
#include <tuple>
#include <utility>

#include "messages/vocabulary.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFoldersMax = 10'000;
constexpr std::size_t kLookedAtMax = 64;
constexpr std::size_t kRunsMax = 16;
constexpr std::uintmax_t kJournalBytesMax = 64 << 20;

std::vector<std::string> gpu_names(const Machine& machine) {
  std::vector<std::string> names;
  for (const Gpu& gpu : machine.gpus) names.push_back(gpu.name);
  return names;
}

auto what_decides(const RunOptions& options) {
  return std::tie(options.target, options.seeds, options.jobs,
                  options.variants_max, options.timing_ms,
                  options.final_timing_ms, options.compile_baseline,
                  options.autotune_baseline, options.no_extern, options.accept,
                  options.mode, options.dynamic_batch, options.dynamic_input,
                  options.dynamic_dim, options.dynamic_more, options.budget_ms,
                  options.llm.name, options.llm.rounds, options.llm.samples,
                  options.llm.search);
}

/// Journals of the run directories beside that one, the newest first.
std::vector<fs::path> sibling_journals(const fs::path& run) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;
  const fs::path own = fs::absolute(run).lexically_normal();
  std::size_t folders = 0;
  auto folder = fs::directory_iterator(
      own.parent_path(), fs::directory_options::skip_permission_denied, error);
  for (; !error && folder != fs::end(folder); folder.increment(error)) {
    if (++folders > kFoldersMax) break;
    const fs::path journal = folder->path() / "journal.db";
    std::error_code none;
    const auto bytes = fs::file_size(journal, none);
    if (none || bytes > kJournalBytesMax) continue;
    if (folder->path().lexically_normal() == own) continue;
    const auto changed = fs::last_write_time(journal, none);
    if (!none) found.emplace_back(changed, journal);
  }
  std::ranges::sort(found, std::ranges::greater());
  if (found.size() > kLookedAtMax) found.resize(kLookedAtMax);
  std::vector<fs::path> journals;
  for (auto& [changed, journal] : found) journals.push_back(std::move(journal));
  return journals;
}

std::optional<EarlierRun> read_run(const fs::path& file, const RunStart& start,
                                   const std::stop_token& stop) {
  const auto journal = Journal::open_read_only(file);
  if (!journal) return std::nullopt;
  Stages stages;
  EarlierRun run;
  bool fits = true;
  const auto read = journal->read(1, [&](const Envelope& envelope) {
    if (envelope.type == RunStart::name) {
      const auto message = decode(envelope.type, envelope.body);
      const auto* theirs = message ? std::get_if<RunStart>(&*message) : nullptr;
      fits = theirs && is_like(*theirs, start);
      run.is_same_problem = fits && theirs->problem == start.problem &&
                            theirs->graph == start.graph;
    }
    stages.take(envelope);
    return fits && !stop.stop_requested();
  });
  if (!read || !fits || !stages.is_over()) return std::nullopt;
  for (std::size_t i = 0; i < kStages; ++i) {
    const auto length = stages.length_us(static_cast<Stage>(i));
    if (!length) return std::nullopt;  // it ended before that
    run.length_us[i] = *length;
  }
  run.subgraphs = stages.subgraphs();
  return run;
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

bool is_like(const RunStart& run_start, const RunStart& other) {
  return what_decides(run_start.options) == what_decides(other.options) &&
         run_start.machine.name == other.machine.name &&
         run_start.machine.cores == other.machine.cores &&
         gpu_names(run_start.machine) == gpu_names(other.machine);
}

std::vector<EarlierRun> runs_like(const RunStart& start, const fs::path& run,
                                  std::stop_token stop) {
  std::vector<EarlierRun> runs;
  for (const fs::path& journal : sibling_journals(run)) {
    if (stop.stop_requested()) return {};
    const auto current = read_run(journal, start, stop);
    if (current) runs.push_back(*current);
    if (runs.size() == kRunsMax) break;
  }
  std::ranges::stable_partition(runs, &EarlierRun::is_same_problem);
  return runs;
}

std::optional<std::int64_t> expected_us(const std::vector<EarlierRun>& runs,
                                        Stage stage, int subgraphs) {
  const bool knows_it = std::ranges::any_of(runs, &EarlierRun::is_same_problem);
  const bool by_subgraph = !knows_it && stage == Stage::kernels;
  if (by_subgraph && subgraphs == 0) return std::nullopt;
  std::vector<std::int64_t> lengths;
  for (const EarlierRun& run : runs) {
    if (knows_it && !run.is_same_problem) continue;
    if (by_subgraph && run.subgraphs == 0) continue;
    const std::int64_t length = run.length_us[static_cast<std::size_t>(stage)];
    lengths.push_back(by_subgraph ? length * subgraphs / run.subgraphs
                                  : length);
  }
  if (lengths.empty()) return std::nullopt;
  return median(std::move(lengths));
}

}  // namespace weft
