// port/verify: checks and times candidates, through warm oracle processes (one
// a slot; docs/reference/worker-protocol.md). An oracle that dies or overruns
// its limit is replaced, and the request answered with a failure. One that
// works on what is not wanted any more is killed.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "actors/role.hpp"
#include "runtime/host/port.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/machine/work_queue.hpp"
#include "runtime/ports/kernel_cache.hpp"
#include "runtime/sandbox/line_process.hpp"

namespace weft {

/// Each oracle and its candidate hold PyTorch: about half a GiB a slot.
inline constexpr int kOracleSlotsMax = 4;

/// Another oracle and its candidate's process load PyTorch: so long a processor
/// works for them (3.7 s of 21 s of a run on two cores, 2026-11-29).
constexpr std::int64_t kOracleStartMs = 4'000;

class VerifyPort : public Port {
 public:
  struct Options {
    Installation installation;
    std::filesystem::path scratch;  ///< slots get folders below it
    std::filesystem::path logs;     ///< the oracles' standard error
    int slots = 1;
    /// A request waits so long for an oracle that is at work, before another
    /// is started for it.
    std::int64_t patience_ms = 0;
    int threads = 1;                                    ///< of one kernel
    std::int64_t memory_bytes = std::int64_t{8} << 30;  ///< of a candidate
    std::string device = "cpu";                         ///< or "cuda:0"
    std::string arch;  ///< of the GPU, where kernels are built for it
    std::string slot_name = "slot";  ///< folders and logs begin with it
    std::string precision = "framework";
    bool interprets = false;         ///< kernels for a GPU, where there is none
    bool untrusted_problem = false;  ///< its code runs in a sandbox only
    /// One call and one timing take at most so long, whatever a request says.
    std::int64_t call_ms = RunOptions{}.call_ms;
    std::int64_t timing_ms = RunOptions{}.final_timing_ms;
  };
  /// Sets what the run decides, not the machine.
  static void take_run(Options& options, const RunStart& start);
  VerifyPort(Blobs& blobs, KernelCache& cache, Options options);
  ~VerifyPort() override;

  /// Starts an oracle ahead of the first request: that takes seconds, and a run
  /// begins with others. On a GPU it compiles the model for the last one, too.
  void warm_up(const RunStart& start);

  /// Removes what candidates left in the folders of slots that are idle, and
  /// ends what still runs there: it may hold what it wrote. Any thread.
  void empty_idle_slots();

  void start(const Message& request, Reply reply) override;
  void begin(const Message& request, std::stop_token cancelled,
             Reply reply) override;

 private:
  /// The most that a role asks for one request, with the run's own times.
  std::int64_t wall_ms_max() const;

  struct Slot {
    std::string name;
    bool busy = false;
    std::shared_ptr<LineProcess> oracle;  ///< null until needed
  };

  Message answer(const Message& request, const std::stop_token& cancelled);
  Message asked(const Message& request, const std::stop_token& cancelled);
  CheckReply check(const CheckRequest& request,
                   const std::stop_token& cancelled);
  TimeReply time(const TimeRequest& request, const std::stop_token& cancelled);
  ProbeReply probe(const ProbeRequest& request,
                   const std::stop_token& cancelled);
  Result<nlohmann::json> subject_fields(const Subject& subject,
                                        const std::stop_token& cancelled);
  Result<nlohmann::json> ask(nlohmann::json request, std::int64_t wall_ms,
                             const std::stop_token& cancelled = {});
  Result<KernelCache::Built> built(const Subject& subject,
                                   const std::stop_token& cancelled);
  Result<std::filesystem::path> materialise(const std::string& blob,
                                            const std::string& suffix);
  Slot& take_slot(const std::stop_token& cancelled);
  void give_back(Slot& slot, bool is_broken);
  /// with_baseline: the baseline's process begins with it, so that a first
  /// timing need not wait for that.
  Result<std::shared_ptr<LineProcess>> start_oracle(const Slot& slot,
                                                    bool with_baseline = false);
  LineCommand command_for(const Slot& slot, bool with_baseline) const;

  Blobs& blobs_;
  KernelCache& cache_;
  Options options_;
  std::mutex mutex_;  // guards the slots and stopping_
  std::condition_variable_any freed_;
  std::vector<Slot> slots_;
  bool stopping_ = false;
  std::unique_ptr<WorkQueue> queue_;  // last: its threads use the rest
};

}  // namespace weft
