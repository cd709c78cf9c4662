// Requests to the kernel library and its replies
// (docs/reference/kernel-library.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/effects.hpp"
#include "messages/failure.hpp"
#include "messages/fields.hpp"

namespace weft {

/// Kernels of another format mean something else by the same text. To be raised
/// when what a kernel must export changes.
inline constexpr int kernel_format = 2;

/// For what a kernel is the best known one: where any of this differs, it is
/// another question.
struct KernelKey {
  std::string signature;  ///< of the subgraph: docs/reference/subgraphs.md
  std::string target;     ///< what the run builds for
  std::string device;     ///< where it is timed
  std::string policy;     ///< precision, and what kernels may call
  int format = kernel_format;
  WEFT_FIELDS(signature, target, device, policy, format)
  bool operator==(const KernelKey&) const = default;
};

/// A kernel and what was measured of it when it was best.
struct KnownKernel {
  std::string source;   ///< blob; empty: there is none
  std::string target;   ///< "cpu"
  std::string variant;  ///< for people
  std::string origin;   ///< who proposed it: "compiler"
  Times candidate;      ///< its time
  Speedup over_eager;
  Speedup over_compile;
  double floor_share = 0;  ///< of its time, what moving the bytes takes
  /// Blobs: sources that were tried beside it, and were not better.
  std::vector<std::string> superseded;
  WEFT_FIELDS(source, target, variant, origin, candidate, over_eager,
              over_compile, floor_share, superseded)
  bool operator==(const KnownKernel&) const = default;
};

/// LlmOptions::edition of the first runs whose library keeps and shows
/// patterns. They decide as edition 2 does.
inline constexpr int kPatternsEdition = 3;

/// How a language model's kernel became the best one of its subgraph. Models
/// wrote most of its texts: they are data, whatever they say.
struct WinningPattern {
  std::string type;      ///< The subgraph's type, for people.
  std::string inputs;    ///< The types of its inputs.
  std::string device;    ///< KernelKey::device
  std::string platform;  ///< "cpu" or "gpu"
  /// What subgraphs are compared by: operators, and kinds of them.
  std::vector<std::string> features;
  std::string idea;        ///< The model's own line; may be empty.
  std::string change;      ///< Blob: the lines of the change that gained most.
  bool is_whole = false;   ///< `change` is the kernel, not a difference.
  double over_eager = 0;   ///< Speedup of the kernel.
  double over_others = 0;  ///< Speedup over other sources; 0: they had none.
  double gain = 0;         ///< Speedup by this change alone.
  WEFT_FIELDS(type, inputs, device, platform, features, idea, change, is_whole,
              over_eager, over_others, gain)
  bool operator==(const WinningPattern&) const = default;
};

/// Which patterns are wanted. Without features: none.
struct PatternQuery {
  std::string platform;
  std::vector<std::string> features;
  int count_max = 0;
  WEFT_FIELDS(platform, features, count_max)
  bool operator==(const PatternQuery&) const = default;
};

/// seeds/library -> port/library: the best known kernel for that.
struct FindKernelRequest {
  static constexpr std::string_view name = "FindKernelRequest";
  std::uint64_t effect = 0;
  KernelKey key;
  PatternQuery similar{};  ///< what won for other subgraphs
  WEFT_FIELDS(effect, key, similar)
  bool operator==(const FindKernelRequest&) const = default;
};
struct FindKernelReply {
  static constexpr std::string_view name = "FindKernelReply";
  std::uint64_t effect = 0;
  Failure failure;
  KnownKernel kernel;                      ///< without a source: none is known
  std::vector<WinningPattern> patterns{};  ///< the most similar first
  WEFT_FIELDS(effect, failure, kernel, patterns)
  bool operator==(const FindKernelReply&) const = default;
};

/// agent -> port/library: what came of a subgraph.
struct KeepKernelRequest {
  static constexpr std::string_view name = "KeepKernelRequest";
  std::uint64_t effect = 0;
  KernelKey key;
  /// Blob: what the library gave, and was judged anew. It goes, unless it is
  /// `kernel`, whatever was remembered of it.
  std::string judged;
  /// The best one now; without a source there is none. What another run has
  /// put there meanwhile stays if that is faster.
  KnownKernel kernel;
  /// How it came about; without a change: not told. It goes with its kernel.
  WinningPattern pattern{};
  WEFT_FIELDS(effect, key, judged, kernel, pattern)
  bool operator==(const KeepKernelRequest&) const = default;
};
struct KeepKernelReply {
  static constexpr std::string_view name = "KeepKernelReply";
  std::uint64_t effect = 0;
  Failure failure;
  WEFT_FIELDS(effect, failure)
  bool operator==(const KeepKernelReply&) const = default;
};

}  // namespace weft
