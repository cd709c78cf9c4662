#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include "compiler/choices/choices.hpp"

namespace weft {
namespace {

/// Whole numbers up to here are exact in a double.
constexpr double kChoiceMax = 0x1p53;

// Each theme's values by name. A new field of a theme is listed here, or it
// cannot be overridden.

template <class Visit>
void visit_fusion(FusionChoices& choices, const Visit& visit) {
  visit("fusion.layout_copy_elements_min", choices.layout_copy_elements_min);
  visit("fusion.channels_last_elements_min",
        choices.channels_last_elements_min);
  visit("fusion.loop_steps_min", choices.loop_steps_min);
  visit("fusion.unaligned_loop_steps_min", choices.unaligned_loop_steps_min);
  visit("fusion.unaligned_copy_bytes_max", choices.unaligned_copy_bytes_max);
}

template <class Visit>
void visit_contraction(ContractionChoices& choices, const Visit& visit) {
  const auto range = [&](const std::string& name, ShareRange& shares) {
    visit("contraction." + name + ".least", shares.least);
    visit("contraction." + name + ".most", shares.most);
  };
  range("our_product", choices.our_product);
  range("vendor_product", choices.vendor_product);
  range("our_convolution", choices.our_convolution);
  range("vendor_convolution", choices.vendor_convolution);
  range("vendor_convolution_rows", choices.vendor_convolution_rows);
  range("our_transposed", choices.our_transposed);
  range("vendor_transposed", choices.vendor_transposed);
  range("our_memory", choices.our_memory);
  range("our_depthwise_memory", choices.our_depthwise_memory);
  range("vendor_depthwise_memory", choices.vendor_depthwise_memory);
  visit("contraction.exact_passes", choices.exact_passes);
  visit("contraction.our_latency_us", choices.our_latency_us);
  visit("contraction.tile_min", choices.tile_min);
  visit("contraction.cuts_max", choices.cuts_max);
}

template <class Visit>
void visit_lowering(LoweringChoices& choices, const Visit& visit) {
  visit("lowering.single_pass_elements", choices.single_pass_elements);
  visit("lowering.coalesced_rows", choices.coalesced_rows);
  visit("lowering.stacked_tensors_max", choices.stacked_tensors_max);
  visit("lowering.sparse_outputs_min", choices.sparse_outputs_min);
}

template <class Visit>
void visit_loops(LoopChoices& choices, const Visit& visit) {
  visit("loops.parallel_elements_min", choices.parallel_elements_min);
  visit("loops.long_row_elements", choices.long_row_elements);
  visit("loops.coalesced_elements", choices.coalesced_elements);
  visit("loops.points_per_core_min", choices.points_per_core_min);
  visit("loops.points_per_multiprocessor_min",
        choices.points_per_multiprocessor_min);
  visit("loops.few_rows_divisor", choices.few_rows_divisor);
  visit("loops.window_row_elements_max", choices.window_row_elements_max);
  visit("loops.jam_windows_max", choices.jam_windows_max);
  visit("loops.jam_reads_share_max", choices.jam_reads_share_max);
  visit("loops.jam_written_elements_max", choices.jam_written_elements_max);
  visit("loops.jam_taps_max", choices.jam_taps_max);
}

template <class Visit>
void visit_cpu(CpuChoices& choices, const Visit& visit) {
  visit("cpu.two_pass_l2_divisor", choices.two_pass_l2_divisor);
  visit("cpu.streamed_l2_multiple", choices.streamed_l2_multiple);
  visit("cpu.kept_l2_divisor", choices.kept_l2_divisor);
  visit("cpu.columns_l2_divisor", choices.columns_l2_divisor);
  visit("cpu.fold_columns_max", choices.fold_columns_max);
  visit("cpu.fold_columns_min", choices.fold_columns_min);
  visit("cpu.down_columns_max", choices.down_columns_max);
  visit("cpu.split_chunks_per_core", choices.split_chunks_per_core);
  visit("cpu.split_chunk_steps_min", choices.split_chunk_steps_min);
}

template <class Visit>
void visit_triton_nest(TritonNestChoices& choices, const Visit& visit) {
  visit("triton.nest.window_elements_max", choices.window_elements_max);
  visit("triton.nest.unrolled_window_elements_max",
        choices.unrolled_window_elements_max);
  visit("triton.nest.window_accumulators_max", choices.window_accumulators_max);
  visit("triton.nest.window_points_max", choices.window_points_max);
  visit("triton.nest.column_steps", choices.column_steps);
  visit("triton.nest.column_points", choices.column_points);
  visit("triton.nest.column_elements_per_thread_min",
        choices.column_elements_per_thread_min);
  visit("triton.nest.coalesced_points_min", choices.coalesced_points_min);
  visit("triton.nest.row_elements_min", choices.row_elements_min);
  visit("triton.nest.interior_tiles_min", choices.interior_tiles_min);
  visit("triton.nest.interior_points_min", choices.interior_points_min);
  visit("triton.nest.split_column_points", choices.split_column_points);
  visit("triton.nest.split_programs_of_columns",
        choices.split_programs_of_columns);
  visit("triton.nest.split_programs_of_rows", choices.split_programs_of_rows);
}

template <class Visit>
void visit_triton_product(TritonProductChoices& choices, const Visit& visit) {
  visit("triton.product.rows_min", choices.rows_min);
  visit("triton.product.columns_min", choices.columns_min);
  visit("triton.product.folded_min", choices.folded_min);
  visit("triton.product.tiles_together", choices.tiles_together);
  visit("triton.product.split_steps_min", choices.split_steps_min);
  visit("triton.product.share_steps_min", choices.share_steps_min);
  visit("triton.product.split_programs_per_sm", choices.split_programs_per_sm);
  visit("triton.product.packed_extent_min", choices.packed_extent_min);
  visit("triton.product.packed_folded_min", choices.packed_folded_min);
  visit("triton.product.packed_bytes_max", choices.packed_bytes_max);
  visit("triton.product.gathered_lanes_max", choices.gathered_lanes_max);
  visit("triton.product.gathered_lanes_min", choices.gathered_lanes_min);
  visit("triton.product.layout_rows_min", choices.layout_rows_min);
  visit("triton.product.layout_elements_max", choices.layout_elements_max);
  visit("triton.product.phases_max", choices.phases_max);
}

template <class Visit>
void visit_cuda_rows(CudaRowChoices& choices, const Visit& visit) {
  visit("cuda.rows.short_row_packs_per_thread",
        choices.short_row_packs_per_thread);
  visit("cuda.rows.split_blocks_per_sm", choices.split_blocks_per_sm);
  visit("cuda.rows.split_packs_min", choices.split_packs_min);
  visit("cuda.rows.walk_blocks_per_sm", choices.walk_blocks_per_sm);
  visit("cuda.rows.resident_threads_divisor", choices.resident_threads_divisor);
  visit("cuda.rows.column_threads_per_point_max",
        choices.column_threads_per_point_max);
  visit("cuda.rows.sms_per_lost_sm", choices.sms_per_lost_sm);
  visit("cuda.rows.shifted_row_elements_min", choices.shifted_row_elements_min);
  visit("cuda.rows.reread_elements_min", choices.reread_elements_min);
  visit("cuda.rows.reread_values", choices.reread_values);
}

template <class Visit>
void visit_cuda_stream(CudaStreamChoices& choices, const Visit& visit) {
  visit("cuda.stream.ahead_bytes", choices.ahead_bytes);
  visit("cuda.stream.kept_packs", choices.kept_packs);
  visit("cuda.stream.rows_in_memory", choices.rows_in_memory);
  visit("cuda.stream.rows_in_memory_of_exponentials",
        choices.rows_in_memory_of_exponentials);
  visit("cuda.stream.chunks_min", choices.chunks_min);
  visit("cuda.stream.column_chunks_min", choices.column_chunks_min);
  visit("cuda.stream.busy_share_min", choices.busy_share_min);
}

template <class Visit>
void visit_cuda_windows(CudaWindowChoices& choices, const Visit& visit) {
  visit("cuda.windows.row_elements_max", choices.row_elements_max);
  visit("cuda.windows.windows_max", choices.windows_max);
  visit("cuda.windows.rows_max", choices.rows_max);
  visit("cuda.windows.reads_share_max", choices.reads_share_max);
  visit("cuda.windows.written_reads_max", choices.written_reads_max);
  visit("cuda.windows.threads_per_sm_min", choices.threads_per_sm_min);
  visit("cuda.windows.together_threads_per_sm_min",
        choices.together_threads_per_sm_min);
}

template <class Visit>
void visit_cuda_stencil(CudaStencilChoices& choices, const Visit& visit) {
  visit("cuda.stencil.kept_planes_max", choices.kept_planes_max);
  visit("cuda.stencil.written_reads_max", choices.written_reads_max);
  visit("cuda.stencil.walk_windows_max", choices.walk_windows_max);
  visit("cuda.stencil.walk_windows_min", choices.walk_windows_min);
  visit("cuda.stencil.threads_per_sm_min", choices.threads_per_sm_min);
  visit("cuda.stencil.beyond_packs_max", choices.beyond_packs_max);
  visit("cuda.stencil.tried_pairs_max", choices.tried_pairs_max);
}

template <class Visit>
void visit_all(Choices& choices, const Visit& visit) {
  visit_fusion(choices.fusion, visit);
  visit_contraction(choices.contraction, visit);
  visit_lowering(choices.lowering, visit);
  visit_loops(choices.loops, visit);
  visit_cpu(choices.cpu, visit);
  visit_triton_nest(choices.triton.nest, visit);
  visit_triton_product(choices.triton.product, visit);
  visit_cuda_rows(choices.cuda.rows, visit);
  visit_cuda_stream(choices.cuda.stream, visit);
  visit_cuda_windows(choices.cuda.windows, visit);
  visit_cuda_stencil(choices.cuda.stencil, visit);
}

}  // namespace

Result<Choices> choices_with(const std::map<std::string, double>& values) {
  Choices choices;
  std::map<std::string, double, std::less<>> open(values.begin(), values.end());
  std::string fault;
  visit_all(choices, [&](std::string_view name, auto& value) {
    const auto found = open.find(name);
    if (found == open.end()) return;
    using Value = std::remove_reference_t<decltype(value)>;
    const double given = found->second;
    if (!std::isfinite(given) || given < 0 || given > kChoiceMax) {
      fault = found->first + " is from 0 to 2^53";
    } else if (std::is_integral_v<Value> && given != std::floor(given)) {
      fault = found->first + " is a whole number";
    } else {
      value = static_cast<Value>(given);
    }
    open.erase(found);
  });
  if (!open.empty()) {
    fault = "there is no choice " + open.begin()->first + "; there are";
    for (const NamedChoice& one : list_choices()) fault += " " + one.name;
  }
  if (fault.empty()) return choices;
  return fail(ErrorCode::wrong_input, fault);
}

std::vector<NamedChoice> list_choices(Choices choices) {
  std::vector<NamedChoice> list;
  visit_all(choices, [&](std::string_view name, auto& value) {
    list.push_back({std::string(name), static_cast<double>(value)});
  });
  return list;
}

}  // namespace weft
