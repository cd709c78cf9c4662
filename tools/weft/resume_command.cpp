#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "actors/capabilities.hpp"
#include "actors/llm/seeds.hpp"
#include "messages/shown_text.hpp"
#include "runtime/machine/either_stop.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/finished_run.hpp"
#include "tools/weft/foreign_run.hpp"
#include "tools/weft/interrupt.hpp"
#include "tools/weft/own_runs.hpp"
#include "tools/weft/run_in_process.hpp"
#include "tools/weft/run_machine.hpp"
#include "tools/weft/run_settings.hpp"

namespace weft {
namespace {

/// A stop token that also stops after `ms`; 0: no time limit.
class StopAfter {
 public:
  StopAfter(const std::stop_token& other, std::int64_t ms)
      : either_(other, time_is_up_.get_token()) {
    if (ms <= 0) return;
    clock_ = std::jthread([this, ms](const std::stop_token& over) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any ended;
      ended.wait_for(lock, over, std::chrono::milliseconds(ms),
                     [] { return false; });
      if (!over.stop_requested()) time_is_up_.request_stop();
    });
  }
  std::stop_token token() const { return either_.token(); }

 private:
  std::stop_source time_is_up_;
  EitherStop either_;
  std::jthread clock_;  // ends before what it stops
};

/// Whether a language model may still be asked: one is among the seeds, and not
/// all subgraphs have their verdicts, those of the eager-contractions partition
/// among them where that is being searched.
Result<bool> may_ask_model(const Journal& journal, const RunOptions& options) {
  if (std::ranges::find(options.seeds, kLlmSource) == options.seeds.end()) {
    return false;
  }
  bool is_searched = false;
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    if (envelope.type == SearchEagerContractions::name) is_searched = false;
    is_searched =
        is_searched || envelope.type == Compose::name ||
        envelope.type == EagerContractionsSearched::name ||
        (envelope.dst == address::user && envelope.type == RunFinished::name);
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return !is_searched;
}

/// Without its key a run would go on without the model, to its end.
Result<void> check_model(const Journal& journal, const RunOptions& options,
                         const std::vector<LlmEndpoint>& endpoints) {
  const auto is_asked = may_ask_model(journal, options);
  if (!is_asked) return std::unexpected(is_asked.error());
  return *is_asked ? check_llm_key(endpoints, options.llm.name)
                   : Result<void>();
}

/// missing: the head cannot do again what it did when the run began.
Result<void> check_head(const RunStart& start,
                        const Installation& installation) {
  if (head_can(start, capability::capture)) {
    if (const auto torch = check_torch(installation); !torch) return torch;
  }
  if (!head_can(start, capability::judge)) return {};
  const auto tools = check_tools(start.options, installation);
  return tools ? check_devices(start) : tools;
}

void say_remarks(const CommonFlags& common, const ForeignRun& run) {
  if (common.quiet) return;
  for (const std::string& remark : run.remarks) {
    std::fprintf(stderr, "weft: %s\n", terminal_line(remark).c_str());
  }
}

}  // namespace

int resume_command(const CommonFlags& common, const ResumeFlags& flags) {
  const Interrupt interrupt;
  const auto folder = RunDirectory::open(flags.run);
  if (!folder) return report_error(common, folder.error());
  const auto installation = ready_installation(common, false);
  if (!installation) return report_error(common, installation.error());
  const auto run = reopen_run(flags.run);
  if (!run) return report_error(common, run.error());
  OpenRun& open = **run;
  auto loaded = load_settings(
      common.config ? common.config : remembered_settings(open.journal));
  if (!loaded) return report_error(common, loaded.error());
  const auto start = read_start(open.journal);
  if (!start) return report_error(common, start.error());
  if (const auto able = check_head(*start, *installation); !able) {
    return report_error(common, able.error());
  }
  std::optional<ForeignRun> foreign;
  if (!flags.trusted && !is_own(open.journal)) {
    auto limited = limit_foreign(*start, loaded->settings, flags);
    if (!limited) return report_error(common, limited.error());
    foreign = std::move(*limited);
    say_remarks(common, *foreign);
  }
  if (!foreign || foreign->may_ask_models) {
    const auto model =
        check_model(open.journal, start->options, loaded->endpoints);
    if (!model) return report_error(common, model.error());
  }
  Display display(common);
  LlmAccess llm = llm_access(*loaded, flags.llm_cache);
  if (foreign) {
    llm.limit = foreign->spending;
    if (!foreign->may_ask_models) llm.endpoints.clear();
  }
  const StopAfter budget(interrupt.token(), foreign ? foreign->budget_ms : 0);
  const auto content_rule = flags.recorded ? Replay::ContentRule::recorded
                                           : Replay::ContentRule::decided_again;
  const auto end = host_rest(
      {common, flags.listen, *installation, llm, display, budget.token()}, open,
      foreign ? foreign->start : *start, content_rule);
  if (!end) return report_error(common, end.error());
  if (end->kind == HostEnd::Kind::finished) {
    const auto written = write_missing_files(open.journal, open.directory);
    if (!written) return report_error(common, written.error());
  }
  return conclude(common, display, open.directory, *end);
}

}  // namespace weft
