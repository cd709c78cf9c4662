// What the person at the terminal and the roles say to each other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "messages/device_class.hpp"
#include "messages/fields.hpp"
#include "messages/llm.hpp"

namespace weft {

/// A GPU of the machine.
struct Gpu {
  std::string name;               ///< "NVIDIA H200"
  std::string arch;               ///< "sm_90"
  int sms = 0;                    ///< streaming multiprocessors
  std::int64_t memory_bytes = 0;  ///< device memory
  std::int64_t l2_bytes = 0;      ///< its last cache
  std::int64_t shared_bytes = 0;  ///< that one block can have
  std::string uuid{};             ///< "GPU-8a5c…"; its location is "/" and this
  int resident_threads = 0;       ///< of one multiprocessor; 0: not told
  WEFT_FIELDS(name, arch, sms, memory_bytes, l2_bytes, shared_bytes, uuid,
              resident_threads)
  bool operator==(const Gpu&) const = default;
};

/// What may be known of the machine that builds and runs the kernels.
struct Machine {
  std::string name;  ///< the processor's own name
  int cores = 1;
  int vector_bytes = 32;
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 1 << 20;
  std::vector<std::string> protections;  ///< sandbox layers that are on
  std::vector<std::string> unprotected;  ///< and those that are not
  std::vector<Gpu> gpus;  ///< the run's; empty: none, or none is wanted
  /// What a probe measured on the first of them, by its names
  /// (docs/reference/worker-protocol.md): "copy_gbps", "clusters_of_8". Empty:
  /// nothing. An agent is told those of the device that its subgraph is judged
  /// on.
  std::map<std::string, double> gpu_numbers{};
  std::int64_t l3_bytes = 0;  ///< all of it that the processor has; 0: not told
  std::vector<std::string> instruction_sets{};  ///< "avx2", "fma", …
  /// What a language model's code is built with: "g++", "PyTorch", "Triton", …
  std::map<std::string, std::string> versions{};
  /// What a probe measured on the processor: "copy_gbps", "read_gbps",
  /// "fp32_gflops". Empty: nothing.
  std::map<std::string, double> cpu_numbers{};
  WEFT_FIELDS(name, cores, vector_bytes, l1_bytes, l2_bytes, protections,
              unprotected, gpus, gpu_numbers, l3_bytes, instruction_sets,
              versions, cpu_numbers)
  bool operator==(const Machine&) const = default;
};

/// One dimension of the model's inputs whose size is a symbol.
struct SymbolicDim {
  /// Of the input with that position (-1: the first that is a tensor), and of
  /// each that has this size there.
  int input = -1;
  int dim = 0;
  WEFT_FIELDS(input, dim)
  bool operator==(const SymbolicDim&) const = default;
};

/// All that a user can choose for a run.
struct RunOptions {
  std::string target = "cpu";
  std::vector<std::string> seeds = {"compiler"};  ///< sources of seeds
  int jobs = 2;                                   ///< subgraph agents at a time
  int variants_max = 6;               ///< seeds of one source for one subgraph
  std::int64_t capture_ms = 600'000;  ///< time limit of the capture
  std::int64_t call_ms = 60'000;      ///< time limit of one kernel call
  std::int64_t memory_bytes = std::int64_t{8} << 30;  ///< of one candidate
  std::int64_t timing_ms = 1'500;  ///< spent on timing one right seed
  /// On the best seed, and on the module; 0: they are not timed again.
  std::int64_t final_timing_ms = 4'000;
  bool compile_baseline = true;   ///< time torch.compile too
  std::uint64_t random_seed = 1;  ///< of all random inputs
  /// Of products, for framework and kernels alike: "framework" (its own
  /// flags), "strict" or "tf32".
  std::string precision = "framework";
  /// Of what stands between two operators: "eager" (each result is rounded as
  /// the framework rounds it) or "free" (products may be fused into sums).
  std::string rounding = "eager";
  bool no_extern = false;          ///< no seed may call the vendor's library
  int device = 0;                  ///< which GPU, for targets that want one
  bool autotune_baseline = false;  ///< time the whole beside max-autotune too
  std::string known_kernels;       ///< their file; empty: none is used
  /// GPUs by number or UUID, or "all"; empty: `device` alone. The run's are
  /// Machine::gpus.
  std::vector<std::string> devices{};
  /// By which rules modules are composed: "weft", "kernelbench" or "both".
  std::string accept = "weft";
  /// The model's, while it is captured, checked and timed: "as-is" (as its
  /// constructor leaves it), "eval", "train", or "both" of these.
  std::string mode = "as-is";
  LlmOptions llm;
  /// Of the whole run; its end is the search's, less what composing takes.
  /// 0: no limit.
  std::int64_t budget_ms = 0;
  /// Overridden choices, which affect speed only, by name
  /// (docs/explanation/code-generation.md).
  std::map<std::string, double> choices{};
  /// One dimension of the model's inputs is a symbol: kernels, and the module
  /// that is composed, are for any size of it.
  bool dynamic_batch = false;
  /// Which one: a SymbolicDim's.
  int dynamic_input = -1;
  int dynamic_dim = 0;
  /// And further ones, each a symbol (compiler/graph/symbolic_shapes.hpp).
  std::vector<SymbolicDim> dynamic_more{};
  WEFT_FIELDS(target, seeds, jobs, variants_max, capture_ms, call_ms,
              memory_bytes, timing_ms, final_timing_ms, compile_baseline,
              random_seed, precision, rounding, no_extern, device,
              autotune_baseline, MSGPACK_NVP("kernel_library", known_kernels),
              devices, accept, mode, llm, budget_ms, choices, dynamic_batch,
              dynamic_input, dynamic_dim, dynamic_more)
  bool operator==(const RunOptions&) const = default;
};

/// Which sizes are symbols, in their order.
inline std::vector<SymbolicDim> symbolic_dims(const RunOptions& options) {
  if (!options.dynamic_batch) return {};
  std::vector<SymbolicDim> dims = {
      {options.dynamic_input, options.dynamic_dim}};
  dims.insert(dims.end(), options.dynamic_more.begin(),
              options.dynamic_more.end());
  return dims;
}

/// What asks for a size to be one: "--dynamic-batch", "--dynamic-dim 1", "…
/// 2:1".
inline std::string size_flag(const SymbolicDim& symbol) {
  if (symbol == SymbolicDim{}) return "--dynamic-batch";
  return "--dynamic-dim " +
         (symbol.input < 0 ? "" : std::to_string(symbol.input) + ":") +
         std::to_string(symbol.dim);
}

/// All that asked for any size; empty: nothing did.
inline std::string size_flags(const RunOptions& options) {
  std::string text;
  for (const SymbolicDim& symbol : symbolic_dims(options)) {
    text += (text.empty() ? "" : " ") + size_flag(symbol);
  }
  return text;
}

/// user -> extractor: the first envelope of every run.
struct RunStart {
  static constexpr std::string_view name = "RunStart";
  std::string problem_name;  ///< file name without its folder
  std::string problem;       ///< blob: the file's text
  RunOptions options;
  Machine machine;
  std::string weft_version;
  /// Blob: a graph that somebody captured already (docs/reference/graph.md).
  /// Then the capture of the problem file, if there is one, is left out.
  std::string graph{};
  int vocabulary = 1;       ///< vocabulary_version of the weft that began it
  std::string decisions{};  ///< decisions_version() of it; empty: not said
  /// Blob: a model in plain words, of which a problem file is to be made.
  std::string description{};
  /// The cut around the framework's own products is searched, too, where a
  /// kernel with one is not right, or lost.
  bool seeks_products = false;
  /// The problem's code runs in a sandbox only: the user does not trust it.
  bool untrusted_problem = false;
  /// All verdicts and timings come from this class; `machine` belongs to it.
  /// Empty: nodes are copies of the head (vocabularies up to 4).
  DeviceClass device_class{};
  /// The head's own capabilities (actors/capabilities.hpp) and cores.
  std::vector<std::string> head_can{};
  int head_cores = 0;
  /// Longest wait for a node that can do what the head can't.
  std::int64_t node_wait_ms = 0;
  WEFT_FIELDS(problem_name, problem, options, machine, weft_version, graph,
              vocabulary, decisions, description, seeks_products,
              untrusted_problem, device_class, head_can, head_cores,
              node_wait_ms)
  bool operator==(const RunStart&) const = default;
};

/// any role -> user: one thing that happened, for the live display.
struct Progress {
  static constexpr std::string_view name = "Progress";
  std::string subgraph;  ///< id, or empty when it concerns the whole run
  std::string stage;     ///< "capture", "seeds", "verify", "time", "compose", …
  std::string text;
  WEFT_FIELDS(subgraph, stage, text)
  bool operator==(const Progress&) const = default;
};

/// extractor or composer -> user: the last envelope of every run.
struct RunFinished {
  static constexpr std::string_view name = "RunFinished";
  /// 0 verified, 1 not verified, 2 wrong input, 3 missing, 4 verified but the
  /// budget for language models ended first.
  int exit_code = 1;
  std::string summary;
  WEFT_FIELDS(exit_code, summary)
  bool operator==(const RunFinished&) const = default;
};

}  // namespace weft
