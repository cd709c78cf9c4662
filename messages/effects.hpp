// What roles ask of the ports, and what comes back. Every request carries the
// asking role's own effect number; the reply carries it back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "messages/failure.hpp"
#include "messages/fields.hpp"

namespace weft {

/// extractor -> port/capture: the problem file in, the graph out; so for the
/// same problem at other sizes, one after the other.
struct CaptureRequest {
  static constexpr std::string_view name = "CaptureRequest";
  std::uint64_t effect = 0;
  std::string problem_name;
  std::string problem;                ///< blob
  std::int64_t wall_ms = 0;           ///< for each
  std::string mode = "as-is";         ///< RunOptions::mode, but one only
  std::vector<std::string> others{};  ///< blobs: the problem at other sizes
  WEFT_FIELDS(effect, problem_name, problem, wall_ms, mode, others)
  bool operator==(const CaptureRequest&) const = default;
};
struct CaptureReply {
  static constexpr std::string_view name = "CaptureReply";
  std::uint64_t effect = 0;
  Failure failure;
  std::string graph;  ///< blob: docs/reference/graph.md
  std::int64_t wall_ms = 0;
  bool from_library =
      false;  ///< the kernel library had the graph of an earlier run
  std::int64_t waited_ms = 0;         ///< of wall_ms, for others on the device
  std::vector<std::string> others{};  ///< graphs of others, up to what failed
  WEFT_FIELDS(effect, failure, graph, wall_ms, from_library, waited_ms, others)
  bool operator==(const CaptureReply&) const = default;
};

/// A file of the run directory.
struct FileToWrite {
  std::string path;  ///< relative to the run directory, no ".."
  std::string blob;
  WEFT_FIELDS(path, blob)
  bool operator==(const FileToWrite&) const = default;
};

/// any role -> port/files. Writing the same again changes nothing.
struct WriteFilesRequest {
  static constexpr std::string_view name = "WriteFilesRequest";
  std::uint64_t effect = 0;
  std::vector<FileToWrite> files;
  WEFT_FIELDS(effect, files)
  bool operator==(const WriteFilesRequest&) const = default;
};
struct WriteFilesReply {
  static constexpr std::string_view name = "WriteFilesReply";
  std::uint64_t effect = 0;
  Failure failure;
  WEFT_FIELDS(effect, failure)
  bool operator==(const WriteFilesReply&) const = default;
};

/// verification worker -> port/build: source in, shared library out.
struct BuildRequest {
  static constexpr std::string_view name = "BuildRequest";
  std::uint64_t effect = 0;
  std::string target;  ///< "cpu"
  std::string source;  ///< blob
  std::int64_t wall_ms = 0;
  std::string arch{};  ///< of the GPU that it is for; empty: the port's own
  WEFT_FIELDS(effect, target, source, wall_ms, arch)
  bool operator==(const BuildRequest&) const = default;
};
struct BuildReply {
  static constexpr std::string_view name = "BuildReply";
  std::uint64_t effect = 0;
  Failure failure;  ///< "wrong_input": the compiler rejected the source
  std::string log;  ///< blob: what the compiler said; empty if nothing
  std::int64_t wall_ms = 0;
  /// Blob: what was built, for whichever location verifies it. Empty: the port
  /// keeps it to itself.
  std::string artefact{};
  WEFT_FIELDS(effect, failure, log, wall_ms, artefact)
  bool operator==(const BuildReply&) const = default;
};

/// A kernel that a composed module calls.
struct BuiltKernel {
  std::string target;
  std::string source;    ///< blob
  std::string artefact;  ///< blob: what it was built into; empty: build it
  WEFT_FIELDS(target, source, artefact)
  bool operator==(const BuiltKernel&) const = default;
};

/// What is checked or timed: a kernel against its subgraph, or a composed
/// module against the problem's Model.
struct Subject {
  std::string target;   ///< "cpu", or "model" for a composed module
  std::string against;  ///< blob: the subgraph's graph, or the problem file
  std::string source;   ///< blob: the kernel's source, or model_new.py
  /// Blob: what the source was built into; empty: the port builds it.
  std::string artefact{};
  /// Of a module: in which mode (RunOptions::mode); empty: as it is.
  std::string mode{};
  /// Of a module that is not checked at the head: its kernels, which the
  /// location may not have.
  std::vector<BuiltKernel> kernels{};
  WEFT_FIELDS(target, against, source, artefact, mode, kernels)
  bool operator==(const Subject&) const = default;
};

/// The verdict of KernelBench's own rule: its random seeds, draws and tolerance
/// against eager (docs/explanation/verification.md).
struct KernelBenchVerdict {
  /// "within" the tolerance, "outside" or "failed"; empty: not asked.
  std::string outcome;
  std::string reason;         ///< why it is not within
  int draws = 0;              ///< compared; all must be within
  double max_difference = 0;  ///< of an element from eager's
  double tolerance = 0;       ///< absolute, and relative too
  std::string compiled;       ///< the same outcome of torch.compile's module
  std::string compiled_reason;
  WEFT_FIELDS(outcome, reason, draws, max_difference, tolerance, compiled,
              compiled_reason)
  bool operator==(const KernelBenchVerdict&) const = default;
};

/// What KernelBenchVerdict's outcomes are.
namespace kernelbench_outcome {
inline constexpr const char* within = "within";
inline constexpr const char* outside = "outside";
}  // namespace kernelbench_outcome

/// The rules by which a module can be checked.
namespace rule {
inline constexpr const char* weft = "weft";
inline constexpr const char* kernelbench = "kernelbench";
}  // namespace rule

/// An element of a wrong result that is not what is expected. Its numbers are
/// texts: they are there to be read, and may be infinite, or none.
struct Mismatch {
  std::string output;
  std::vector<std::int64_t> index;  ///< a number a dimension
  std::string expected;
  std::string got;
  std::string error;  ///< normalised; empty: only the equal is right
  WEFT_FIELDS(output, index, expected, got, error)
  bool operator==(const Mismatch&) const = default;
};

/// The result of a check (docs/explanation/verification.md).
struct Verdict {
  bool correct = false;
  std::string kind;  ///< "correct", "wrong", "crashed", "timed_out", …
  std::string reason;
  int cases = 0;
  double max_error = 0;        ///< against float64, normalised
  double framework_error = 0;  ///< the framework's own, likewise
  double tolerance = 0;
  /// Wrong outputs that the check was shown: true where it rejected them.
  std::map<std::string, bool> controls;
  /// How exact the candidate's products were, and the framework's, as their
  /// errors show: "float32", "tf32", "bfloat16", …; empty: not known.
  std::string precision;
  std::string framework_precision;
  KernelBenchVerdict kernelbench;
  /// Of a wrong result, the first elements that are, a few. Evidence for who
  /// wrote it: `reason` alone is the verdict's.
  std::vector<Mismatch> mismatches;
  WEFT_FIELDS(correct, kind, reason, cases, max_error, framework_error,
              tolerance, controls, precision, framework_precision, kernelbench,
              mismatches)
  bool operator==(const Verdict&) const = default;
};

/// worker or composer -> port/verify.
struct CheckRequest {
  static constexpr std::string_view name = "CheckRequest";
  std::uint64_t effect = 0;
  Subject subject;
  std::uint64_t random_seed = 0;
  std::int64_t call_ms = 0;  ///< limit of one call of the candidate
  std::int64_t memory_bytes = 0;
  std::int64_t wall_ms = 0;  ///< limit of the whole check
  /// Of a module: which rules it is held against.
  std::vector<std::string> rules = {rule::weft};
  bool with_compile = false;  ///< torch.compile's module by its own rule, too
  WEFT_FIELDS(effect, subject, random_seed, call_ms, memory_bytes, wall_ms,
              rules, with_compile)
  bool operator==(const CheckRequest&) const = default;
};
struct CheckReply {
  static constexpr std::string_view name = "CheckReply";
  std::uint64_t effect = 0;
  Failure failure;
  Verdict verdict;
  std::int64_t wall_ms = 0;
  std::int64_t waited_ms = 0;  ///< of wall_ms, for others on the device
  WEFT_FIELDS(effect, failure, verdict, wall_ms, waited_ms)
  bool operator==(const CheckReply&) const = default;
};

/// Times of one side, microseconds a call.
struct Times {
  double median_us = 0;
  double p10_us = 0;
  double p90_us = 0;
  int runs = 0;
  double mean_us = 0;
  double std_us = 0;  ///< of single calls, about the mean
  double min_us = 0;
  double max_us = 0;
  WEFT_FIELDS(median_us, p10_us, p90_us, runs, mean_us, std_us, min_us, max_us)
  bool operator==(const Times&) const = default;
};

/// How many times faster the candidate is than another side: the median of
/// the rounds' ratios and its 95 % confidence interval. 0: not measured.
struct Speedup {
  double ratio = 0;
  double low = 0;
  double high = 0;
  WEFT_FIELDS(ratio, low, high)
  bool operator==(const Speedup&) const = default;
};

/// What kernels were built into, by their names: "registers", "local_bytes",
/// "occupancy_percent", … (docs/reference/worker-protocol.md). The candidate's
/// own word.
using BuiltCode = std::map<std::string, std::map<std::string, std::int64_t>>;

/// Interleaved in one run, so that the sides can be compared.
struct Timing {
  Times candidate;
  Times eager;
  Times compile;  ///< torch.compile; runs == 0 when not measured
  Speedup over_eager;
  Speedup over_compile;
  std::string compile_error;
  int outputs_checked = 0;
  int outputs_wrong = 0;
  std::int64_t bytes_floor = 0;  ///< what must move at least
  Times compile_autotune;        ///< its mode max-autotune, likewise
  Speedup over_compile_autotune;
  std::string compile_autotune_error;
  double floor_us = 0;  ///< moving those bytes on this device; 0: not known
  /// The device's clock after calls of each party ("candidate", "eager", …),
  /// and why it was lower than it could be.
  std::map<std::string, int> sm_mhz;
  std::vector<std::string> throttled;
  BuiltCode built;  ///< the candidate's kernels; empty: nothing is known
  /// Of a module: microseconds a call of each party where so many follow each
  /// other without a pause. Speedups are the lower ones of both ways. Empty: it
  /// was not timed so.
  int back_to_back_calls = 0;
  std::map<std::string, double> back_to_back_us;
  WEFT_FIELDS(candidate, eager, compile, over_eager, over_compile,
              compile_error, outputs_checked, outputs_wrong, bytes_floor,
              compile_autotune, over_compile_autotune, compile_autotune_error,
              floor_us, sm_mhz, throttled, built, back_to_back_calls,
              back_to_back_us)
  bool operator==(const Timing&) const = default;
};

struct TimeRequest {
  static constexpr std::string_view name = "TimeRequest";
  std::uint64_t effect = 0;
  Subject subject;
  std::uint64_t random_seed = 0;
  bool with_compile = false;
  std::int64_t budget_ms = 0;
  std::int64_t call_ms = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t wall_ms = 0;
  bool with_autotune = false;  ///< beside torch.compile's max-autotune too
  WEFT_FIELDS(effect, subject, random_seed, with_compile, budget_ms, call_ms,
              memory_bytes, wall_ms, with_autotune)
  bool operator==(const TimeRequest&) const = default;
};
struct TimeReply {
  static constexpr std::string_view name = "TimeReply";
  std::uint64_t effect = 0;
  Failure failure;
  Timing timing;
  std::string rejected;  ///< why the timed candidate is not to be believed
  std::int64_t wall_ms = 0;
  std::int64_t waited_ms = 0;  ///< of wall_ms, for others on the device
  WEFT_FIELDS(effect, failure, timing, rejected, wall_ms, waited_ms)
  bool operator==(const TimeReply&) const = default;
};

/// composer -> port/verify: what the machine can do.
struct ProbeRequest {
  static constexpr std::string_view name = "ProbeRequest";
  std::uint64_t effect = 0;
  std::int64_t wall_ms = 0;
  WEFT_FIELDS(effect, wall_ms)
  bool operator==(const ProbeRequest&) const = default;
};
struct ProbeReply {
  static constexpr std::string_view name = "ProbeReply";
  std::uint64_t effect = 0;
  Failure failure;
  std::string torch;     ///< its version
  double copy_gbps = 0;  ///< measured: bytes read and written, 1e9 a second
  int threads = 0;
  /// What was measured on the run's GPU, by name and unit: "copy_gbps", …
  std::map<std::string, double> gpu;
  WEFT_FIELDS(effect, failure, torch, copy_gbps, threads, gpu)
  bool operator==(const ProbeReply&) const = default;
};

/// role -> the port that it asked, at the same address: the effect of that
/// number is not wanted any more. The port stops the work and answers it with
/// the effect's own reply, whose failure is "cancelled". What has ended already
/// is answered as ever; a CancelEffect itself has no answer.
struct CancelEffect {
  static constexpr std::string_view name = "CancelEffect";
  std::uint64_t effect = 0;
  std::string reason;
  WEFT_FIELDS(effect, reason)
  bool operator==(const CancelEffect&) const = default;
};

}  // namespace weft
