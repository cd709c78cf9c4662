// The rows of what is decided before code is generated, and of processors.
#include "compiler/choices/choice_rows.hpp"

#include <string>

namespace weft {
namespace {

constexpr std::string_view kCores = "two cores with AVX-512, 2026-11-21";
constexpr std::string_view kShares = "H200, 2026-11-21 to 23";

}  // namespace

void visit_fusion(FusionChoices& choices, const VisitChoice& visit) {
  visit({"fusion.layout_copy_elements_min", "elements", kAnySize, kH200Nov21},
        &choices.layout_copy_elements_min);
  visit({"fusion.channels_last_elements_min", "elements", kAnySize, kH200Nov21},
        &choices.channels_last_elements_min);
  visit({"fusion.loop_steps_min", "regions", kAnySize,
         "KernelBench level 3, 2026-11-23"},
        &choices.loop_steps_min);
  visit({"fusion.unaligned_loop_steps_min", "steps", kAnySize, kH200Nov23},
        &choices.unaligned_loop_steps_min);
  visit({"fusion.unaligned_copy_bytes_max", "bytes", kAnySize, kH200Nov23},
        &choices.unaligned_copy_bytes_max);
}

void visit_contraction(ContractionChoices& choices, const VisitChoice& visit) {
  const auto range = [&](const std::string& name, ShareRange& shares) {
    const std::string least = "contraction." + name + ".least";
    const std::string most = "contraction." + name + ".most";
    visit({least, "share of the device's rate", kShare, kShares},
          &shares.least);
    visit({most, "share of the device's rate", kShare, kShares}, &shares.most);
  };
  range("our_product", choices.our_product);
  range("vendor_product", choices.vendor_product);
  range("our_convolution", choices.our_convolution);
  range("vendor_convolution", choices.vendor_convolution);
  range("vendor_convolution_rows", choices.vendor_convolution_rows);
  range("our_transposed", choices.our_transposed);
  range("vendor_transposed", choices.vendor_transposed);
  range("our_memory", choices.our_memory);
  range("our_transposed_memory", choices.our_transposed_memory);
  range("our_depthwise_memory", choices.our_depthwise_memory);
  range("vendor_depthwise_memory", choices.vendor_depthwise_memory);
  visit({"contraction.exact_passes",
         "passes",
         {1, 16},
         "three TF32 products keep float32's bits"},
        &choices.exact_passes);
  visit({"contraction.our_latency_us", "us", {0, 1e6}, "rule, 2026-11-25"},
        &choices.our_latency_us);
  visit({"contraction.tile_min", "channels", kSomeAtATime,
         "the matrix units' smallest tile"},
        &choices.tile_min);
  visit({"contraction.cuts_max", "cuts", kSmallCount,
         "rule: each is composed and timed, 2026-11-25"},
        &choices.cuts_max);
  visit({"contraction.attention_cuts_max", "cuts", kSmallCount,
         "rule: each is composed and timed, 2026-11-26"},
        &choices.attention_cuts_max);
}

void visit_lowering(LoweringChoices& choices, const VisitChoice& visit) {
  visit({"lowering.single_pass_elements", "elements", kAnySize,
         "rule: 1/8 of a 4 MiB cache, 2026-11-21"},
        &choices.single_pass_elements);
  visit({"lowering.coalesced_rows", "rows", kSomeAtATime, kH200Nov21},
        &choices.coalesced_rows);
  visit({"lowering.stacked_tensors_max", "tensors", kAnySize, kH200Nov22},
        &choices.stacked_tensors_max);
  visit(
      {"lowering.sparse_outputs_min", "outputs for one", kDivisor, kH200Nov23},
      &choices.sparse_outputs_min);
  visit({"lowering.summed_places_max", "rows or entries", kAnySize,
         "rule, 2026-11-26"},
        &choices.summed_places_max);
  visit({"lowering.window_operations_max", "operations an element", kAnySize,
         "rule: eight times what memory takes, 2026-11-28"},
        &choices.window_operations_max);
  visit({"lowering.kept_trials_max", "values", kAnySize,
         "rule: seconds of a search, 2026-11-29"},
        &choices.kept_trials_max);
  visit({"lowering.kept_gain_us",
         "us",
         {0, 1e6},
         "rule: more than rounding, 2026-11-29"},
        &choices.kept_gain_us);
}

void visit_loops(LoopChoices& choices, const VisitChoice& visit) {
  visit({"loops.parallel_elements_min", "elements", kAnySize,
         "rule: 10 us of work, 2026-11-21"},
        &choices.parallel_elements_min);
  visit({"loops.long_row_elements", "elements", kAnySize, kH200Nov21},
        &choices.long_row_elements);
  visit({"loops.coalesced_elements", "elements", kAnySize,
         "CUDA programming guide: sectors of 32 bytes"},
        &choices.coalesced_elements);
  visit({"loops.points_per_core_min", "points", kAnySize, "rule, 2026-11-22"},
        &choices.points_per_core_min);
  visit({"loops.points_per_multiprocessor_min", "points", kAnySize,
         "rule, 2026-11-22"},
        &choices.points_per_multiprocessor_min);
  visit({"loops.few_rows_divisor", "multiprocessors for a row", kDivisor,
         kH200Nov25},
        &choices.few_rows_divisor);
  visit({"loops.window_row_elements_max", "elements", kAnySize, kH200Nov21},
        &choices.window_row_elements_max);
  visit({"loops.recomputed_row_elements_max", "elements", kAnySize, kH200Nov29},
        &choices.recomputed_row_elements_max);
  visit({"loops.recomputed_rows_max", "rows", kSmallCount, kH200Nov29},
        &choices.recomputed_rows_max);
  visit({"loops.reductions_beside_max", "reductions", kSmallCount,
         "rule, 2026-11-29"},
        &choices.reductions_beside_max);
  visit({"loops.jam_windows_max", "windows", kSmallCount, kH200Nov22},
        &choices.jam_windows_max);
  visit({"loops.jam_reads_share_max", "share of reads", kShare, kH200Nov22},
        &choices.jam_reads_share_max);
  visit(
      {"loops.jam_written_elements_max", "elements", kSomeAtATime, kH200Nov22},
      &choices.jam_written_elements_max);
  visit({"loops.jam_taps_max", "reads", {1, 8192}, kH200Nov22},
        &choices.jam_taps_max);
}

void visit_cpu(CpuChoices& choices, const VisitChoice& visit) {
  visit({"cpu.two_pass_l2_divisor", "bytes of L2 for an element", kDivisor,
         kCores},
        &choices.two_pass_l2_divisor);
  visit({"cpu.streamed_l2_multiple", "L2 caches", kAnySize, kCores},
        &choices.streamed_l2_multiple);
  visit({"cpu.kept_l2_divisor", "part of L2", kDivisor, kCores},
        &choices.kept_l2_divisor);
  visit({"cpu.columns_l2_divisor", "part of L2", kDivisor, kCores},
        &choices.columns_l2_divisor);
  visit({"cpu.fold_columns_max", "columns", {1, 65536}, kCores},
        &choices.fold_columns_max);
  visit({"cpu.fold_columns_min", "columns", {1, 65536}, kCores},
        &choices.fold_columns_min);
  visit({"cpu.down_columns_max", "columns", {1, 65536}, kCores},
        &choices.down_columns_max);
  visit({"cpu.split_chunks_per_core", "chunks", kSomeAtATime, kCores},
        &choices.split_chunks_per_core);
  visit({"cpu.split_chunk_steps_min", "steps", {1, 0x1p40}, kCores},
        &choices.split_chunk_steps_min);
}

}  // namespace weft
