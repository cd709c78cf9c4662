// Cost-model constants that choose between a generated kernel (with what is
// fused to it) and a vendor-library call for matmul, convolution and attention.
// If the two cost ranges overlap, both partitions are built and benchmarked.
// These constants affect speed only.
#pragma once

namespace weft {

/// Least and largest share of a device's rates that kernels were measured to
/// reach.
struct ShareRange {
  double least = 1;
  double most = 1;
};

/// Shares of what a large product of the vendor library reaches (the rates of
/// cost.hpp). Derived from times of single products and convolutions on an
/// H200, 2026-11-21 to 2026-11-23, as operations over milliseconds.
struct ContractionChoices {
  /// Products. Generated float32 kernels take three passes in TF32 and were 1.5
  /// to 2.1 times as fast as the vendor library's.
  ShareRange our_product = {0.55, 0.9};
  ShareRange vendor_product = {0.9, 1};
  /// Convolutions. The vendor library's have channels innermost; generated
  /// kernels take 1.5 to 3 times as long if arithmetic is the limit.
  ShareRange our_convolution = {0.3, 0.5};
  ShareRange vendor_convolution = {0.75, 0.95};
  /// … with channels outermost, as PyTorch has them by default.
  ShareRange vendor_convolution_rows = {0.15, 0.45};
  /// Transposed ones.
  ShareRange our_transposed = {0.15, 0.45};
  ShareRange vendor_transposed = {0.05, 0.35};
  /// … and all of these of the memory's rate: windows are gathered.
  ShareRange our_memory = {0.4, 1};
  /// … but for transposed ones, with what is fused to them: 0.13 and 0.36 were
  /// measured on an H100, whose library took less time. 2026-11-28.
  ShareRange our_transposed_memory = {0.1, 1};
  /// Depthwise convolutions are bound by memory; the vendor library takes 2 to
  /// 22 times as long.
  ShareRange our_depthwise_memory = {0.7, 1};
  ShareRange vendor_depthwise_memory = {0.04, 0.4};
  /// Passes of the matrix units for one product that keeps float32's bits.
  double exact_passes = 3;
  /// Time that a small generated kernel takes beyond its bytes and operations,
  /// at most: few tiles, and the loop's start. Rule of thumb, 2026-11-25.
  double our_latency_us = 5;
  /// The matrix units' smallest tile: fewer channels are padded to it.
  double tile_min = 16;
  /// Number of partitions of one model that are composed and timed, at most.
  int cuts_max = 3;
  /// … and additional ones with attention as one call, if a model writes it
  /// out.
  int attention_cuts_max = 3;
};

}  // namespace weft
