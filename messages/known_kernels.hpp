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

/// seeds/library -> port/library: the best known kernel for that.
struct FindKernelRequest {
  static constexpr std::string_view name = "FindKernelRequest";
  std::uint64_t effect = 0;
  KernelKey key;
  WEFT_FIELDS(effect, key)
  bool operator==(const FindKernelRequest&) const = default;
};
struct FindKernelReply {
  static constexpr std::string_view name = "FindKernelReply";
  std::uint64_t effect = 0;
  Failure failure;
  KnownKernel kernel;  ///< without a source: none is known
  WEFT_FIELDS(effect, failure, kernel)
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
  WEFT_FIELDS(effect, key, judged, kernel)
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
