// A target (what kernels are built for) as data: its code generator, its build,
// and the Python that loads what was built. docs/development/adding-a-target.md
// says how to add one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/choices/choices.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"
#include "messages/run.hpp"

namespace weft {

/// One candidate, as a code generator writes it.
struct KernelSource {
  std::string variant;  ///< "vec16 unroll2 rows", for people and reports
  std::string text;     ///< one file, readable
  /// Why each kernel in it is as it is.
  std::vector<KernelReason> reasons{};
};

/// What a build on this machine may use.
struct BuildTools {
  std::string cxx;     ///< the C++ compiler
  std::string python;  ///< finds the package weft and, where installed, triton
  std::string arch;    ///< the GPU to build for: "sm_90". Empty: there is none
};

/// What a user may choose of a code generator.
struct GenerateOptions {
  int variants_max = 6;
  /// Intermediate values between two operators are not rounded as PyTorch
  /// rounds them (--rounding free).
  bool free_rounding = false;
  Choices choices{};  ///< what is decided by speed alone
};

/// The Python that loads and calls what a target builds.
struct KernelLoader {
  /// An expression: whether `tensor` lies where the kernels run.
  std::string_view device_condition;
  /// What that reads, in a module with no kernel and so without
  /// module_source().
  std::string_view device_source;
  /// Once a module: what function_source() calls.
  std::string (*module_source)() = nullptr;
  /// `def <name>(x0, …)` that calls the kernel.
  std::string (*function_source)(const Graph& graph, const std::string& name,
                                 std::string_view source) = nullptr;
  /// What it looks up a built file by, beside build_flags and the GPU. Null:
  /// the source.
  std::string (*known_by)(std::string_view source) = nullptr;
};

struct Target {
  std::string_view name;  ///< "cpu": for --target, and the candidate's kind
  /// Its kernels run on a GPU where there is one: then BuildTools::arch and
  /// Machine::gpus say which. Its build may use Python.
  bool on_gpu = false;
  /// Without a GPU there is nothing that it could prove.
  bool needs_gpu = false;
  /// Its build wants NVIDIA's compiler (NVRTC).
  bool needs_nvrtc = false;
  /// Its build asks the GPU, where there is one, what it is.
  bool build_needs_gpu = false;
  /// The target has code for a symbolic graph
  /// (compiler/graph/symbolic_shapes.hpp): one kernel for any batch.
  bool takes_any_size = false;
  /// What a run can be for (--target); else its kernels come from elsewhere.
  bool is_for_runs = true;
  /// Not empty: its sources are those of these targets, in turns, for whatever
  /// each has code for; the rest of this entry says how models are cut.
  std::vector<std::string_view> members;

  /// Yes if the target has a kernel for this call and should use it; otherwise
  /// the call stays PyTorch's.
  Decision (*can_lower)(const Graph& graph, const Node& call,
                        const CutOptions& cut) = nullptr;
  /// Variants of one subgraph, the one expected to be fastest first.
  Result<std::vector<KernelSource>> (*generate)(
      const Subgraph& subgraph, const Machine& machine,
      const GenerateOptions& options) = nullptr;

  std::string_view source_file;  ///< a source's file name: "kernel.cpp"
  /// Where the build finds, as JSON, what it must know of a source beside its
  /// text; empty: nothing. An error of facts() is the source's.
  std::string_view facts_file{};
  Result<std::string> (*facts)(std::string_view source) = nullptr;
  std::string_view built_file;  ///< what the build makes of it: "kernel.so"
  /// Goes into a built file's name, so that other flags give another file.
  /// Null: there are none.
  std::vector<std::string> (*build_flags)() = nullptr;
  /// Makes built_file from source_file in the working folder.
  std::vector<std::string> (*build_command)(const BuildTools& tools) = nullptr;

  KernelLoader loader;
};

}  // namespace weft
