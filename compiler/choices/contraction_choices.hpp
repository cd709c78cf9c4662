// Whose a product, convolution or attention may be: our kernel's, with what is
// fused to it, or the vendor library's, with kernels of ours around it. Where
// the cost model cannot tell, both cuts are made and timing decides. Nothing
// that a result depends on.
#pragma once

namespace weft {

/// What kernels were seen to reach of a device's rates, least and most.
struct ShareRange {
  double least = 1;
  double most = 1;
};

/// Shares of what a large product of the library reaches (cost.hpp's rates),
/// worked out from times on an H200, 2026-11-21 to 2026-11-23
/// (docs/experiments/2026-11-25-lab-notes.md): operations over milliseconds.
struct ContractionChoices {
  /// Products. Ours of float32 take three passes in TF32 and were 1.5 to 2.1
  /// times as fast as the library's.
  ShareRange our_product = {0.55, 0.9};
  ShareRange vendor_product = {0.9, 1};
  /// Convolutions. The library's with channels innermost; ours take 1.5 to 3
  /// times as long where arithmetic is what takes the time.
  ShareRange our_convolution = {0.3, 0.5};
  ShareRange vendor_convolution = {0.75, 0.95};
  /// … with channels outermost, as PyTorch has them by default.
  ShareRange vendor_convolution_rows = {0.15, 0.45};
  /// Transposed ones.
  ShareRange our_transposed = {0.15, 0.45};
  ShareRange vendor_transposed = {0.05, 0.35};
  /// … and all of these of the memory's rate: windows are gathered.
  ShareRange our_memory = {0.4, 1};
  /// … but transposed ones, with what is fused to them: 0.13 and 0.36 were seen
  /// on an H100, whose library took less time. 2026-11-28.
  ShareRange our_transposed_memory = {0.1, 1};
  /// Depthwise ones are bound by memory: 2 to 22 times as long in the library.
  ShareRange our_depthwise_memory = {0.7, 1};
  ShareRange vendor_depthwise_memory = {0.04, 0.4};
  /// Passes of the matrix units for one product that keeps float32's bits.
  double exact_passes = 3;
  /// A small kernel of ours takes up to so much longer than its bytes and
  /// operations say: few tiles, and the loop's start. Rule of thumb,
  /// 2026-11-25.
  double our_latency_us = 5;
  /// The matrix units' smallest tile: fewer channels are padded to it.
  double tile_min = 16;
  /// Cuts of one model that are composed and timed, at most.
  int cuts_max = 3;
  /// … and so many more with attention as one call, where a model writes it
  /// out.
  int attention_cuts_max = 3;
};

}  // namespace weft
