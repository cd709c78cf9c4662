// The rows of what is decided while code for GPUs is generated.
#include "compiler/choices/choice_rows.hpp"

namespace weft {
namespace {

void visit_triton_nest(TritonNestChoices& choices, const VisitChoice& visit) {
  visit({"triton.nest.window_elements_max", "elements", {0, 1024}, kH200Nov21},
        &choices.window_elements_max);
  visit({"triton.nest.unrolled_window_elements_max",
         "elements",
         {0, 1024},
         kH200Nov21},
        &choices.unrolled_window_elements_max);
  visit({"triton.nest.window_accumulators_max", "accumulators", kSomeAtATime,
         kH200Nov21},
        &choices.window_accumulators_max);
  visit({"triton.nest.window_points_max", "points", kSomeAtATime, kH200Nov21},
        &choices.window_points_max);
  visit({"triton.nest.column_steps", "elements", kSomeAtATime, kH200Nov21},
        &choices.column_steps);
  visit({"triton.nest.column_points", "points", kSomeAtATime, kH200Nov21},
        &choices.column_points);
  visit({"triton.nest.column_elements_per_thread_min", "elements", kSomeAtATime,
         kH200Nov21},
        &choices.column_elements_per_thread_min);
  visit({"triton.nest.coalesced_points_min", "points", kAnySize,
         "rule, 2026-11-21"},
        &choices.coalesced_points_min);
  visit({"triton.nest.row_elements_min", "elements", {1, 0x1p40}, kH200Nov21},
        &choices.row_elements_min);
  visit({"triton.nest.interior_tiles_min", "tiles", kAnySize, kH200Nov22},
        &choices.interior_tiles_min);
  visit({"triton.nest.interior_points_min", "points", {1, 0x1p40}, kH200Nov22},
        &choices.interior_points_min);
  visit({"triton.nest.recomputing_elements_max", "elements", kAnySize,
         kH200Nov29},
        &choices.recomputing_elements_max);
  visit({"triton.nest.recomputing_programs_min",
         "programs for a multiprocessor", kSomeAtATime, "rule, 2026-11-29"},
        &choices.recomputing_programs_min);
  visit({"triton.nest.split_column_points", "points", kSomeAtATime, kH200Nov21},
        &choices.split_column_points);
  visit({"triton.nest.split_programs_of_columns",
         "programs for a multiprocessor", kSomeAtATime, kH200Nov21},
        &choices.split_programs_of_columns);
  visit({"triton.nest.split_programs_of_rows", "programs for a multiprocessor",
         kSomeAtATime, kH200Nov21},
        &choices.split_programs_of_rows);
}

void visit_triton_product(TritonProductChoices& choices,
                          const VisitChoice& visit) {
  visit({"triton.product.rows_min", "rows", kAnySize, kH200Nov21},
        &choices.rows_min);
  visit({"triton.product.columns_min", "columns", {2, 0x1p40}, kH200Nov21},
        &choices.columns_min);
  visit({"triton.product.folded_min", "elements", kAnySize, kH200Nov21},
        &choices.folded_min);
  visit({"triton.product.tiles_together", "rows of tiles", kSomeAtATime,
         "Triton's tutorial; H200, 2026-11-21"},
        &choices.tiles_together);
  visit({"triton.product.split_steps_min", "steps", {1, 0x1p40}, kH200Nov21},
        &choices.split_steps_min);
  visit({"triton.product.share_steps_min", "steps", {1, 0x1p40}, kH200Nov21},
        &choices.share_steps_min);
  visit({"triton.product.split_programs_per_sm",
         "programs for a multiprocessor", kSomeAtATime, kH200Nov21},
        &choices.split_programs_per_sm);
  visit(
      {"triton.product.presplit_extent_min", "elements", kAnySize, kH200Nov21},
      &choices.presplit_extent_min);
  visit(
      {"triton.product.presplit_folded_min", "elements", kAnySize, kH200Nov21},
      &choices.presplit_folded_min);
  visit({"triton.product.presplit_bytes_max", "bytes", kAnySize, kH200Nov21},
        &choices.presplit_bytes_max);
  visit(
      {"triton.product.gathered_lanes_max", "lanes", kSomeAtATime, kH200Nov23},
      &choices.gathered_lanes_max);
  visit(
      {"triton.product.gathered_lanes_min", "lanes", kSomeAtATime, kH200Nov23},
      &choices.gathered_lanes_min);
  visit({"triton.product.layout_rows_min", "rows", kAnySize, kH200Nov23},
        &choices.layout_rows_min);
  visit(
      {"triton.product.layout_elements_max", "elements", kAnySize, kH200Nov23},
      &choices.layout_elements_max);
  visit({"triton.product.phases_max", "phases", kSmallCount, kH200Nov23},
        &choices.phases_max);
}

void visit_cuda_rows(CudaRowChoices& choices, const VisitChoice& visit) {
  visit({"cuda.rows.short_row_vectors_per_thread", "vector loads", kSmallCount,
         kH200Nov21},
        &choices.short_row_vectors_per_thread);
  visit({"cuda.rows.split_blocks_per_sm", "blocks for a multiprocessor",
         kSomeAtATime, kH200Nov21},
        &choices.split_blocks_per_sm);
  visit(
      {"cuda.rows.split_vectors_min", "vector loads", {1, 0x1p40}, kH200Nov21},
      &choices.split_vectors_min);
  visit({"cuda.rows.walk_blocks_per_sm", "blocks for a multiprocessor",
         kSmallCount, "rule, 2026-11-21"},
        &choices.walk_blocks_per_sm);
  visit({"cuda.rows.resident_threads_divisor", "part of resident threads",
         kDivisor, kH200Nov21},
        &choices.resident_threads_divisor);
  visit({"cuda.rows.column_threads_per_point_max", "threads", kSomeAtATime,
         kH200Nov21},
        &choices.column_threads_per_point_max);
  visit({"cuda.rows.sms_per_lost_sm", "multiprocessors", kDivisor,
         "H200, 2026-11-21; only where nothing was probed"},
        &choices.sms_per_lost_sm);
  visit(
      {"cuda.rows.shifted_row_elements_min", "elements", kAnySize, kH200Nov21},
      &choices.shifted_row_elements_min);
  visit({"cuda.rows.reread_elements_min", "elements", kAnySize, kH200Nov21},
        &choices.reread_elements_min);
  visit({"cuda.rows.reread_values", "values", kSmallCount, kH200Nov21},
        &choices.reread_values);
}

void visit_cuda_stream(CudaStreamChoices& choices, const VisitChoice& visit) {
  visit({"cuda.stream.ahead_bytes", "bytes", {1, 0x1p20}, kH200Nov22},
        &choices.ahead_bytes);
  visit({"cuda.stream.prefetched_vectors",
         "vector loads",
         {0, 64},
         "H200, 2026-11-25: 4620 to 3740 us"},
        &choices.prefetched_vectors);
  visit({"cuda.stream.rows_in_memory", "rows", kSmallCount, kH200Nov25},
        &choices.rows_in_memory);
  visit({"cuda.stream.rows_in_memory_of_exponentials", "rows", kSmallCount,
         kH200Nov25},
        &choices.rows_in_memory_of_exponentials);
  visit({"cuda.stream.chunks_min", "chunks", kSomeAtATime, "rule, 2026-11-22"},
        &choices.chunks_min);
  visit({"cuda.stream.column_chunks_min", "chunks", kSomeAtATime, kH200Nov22},
        &choices.column_chunks_min);
  visit({"cuda.stream.busy_share_min", "share of multiprocessors", kShare,
         kH200Nov22},
        &choices.busy_share_min);
}

void visit_cuda_windows(CudaWindowChoices& choices, const VisitChoice& visit) {
  visit({"cuda.windows.row_elements_max", "elements", {0, 256}, kH200Nov22},
        &choices.row_elements_max);
  visit({"cuda.windows.windows_max", "windows", kSmallCount, kH200Nov22},
        &choices.windows_max);
  visit({"cuda.windows.rows_max", "rows", kSmallCount, kH200Nov22},
        &choices.rows_max);
  visit({"cuda.windows.reads_share_max", "share of reads", kShare, kH200Nov22},
        &choices.reads_share_max);
  visit({"cuda.windows.written_reads_max", "reads", {0, 8192}, kH200Nov22},
        &choices.written_reads_max);
  visit({"cuda.windows.threads_per_sm_min", "threads for a multiprocessor",
         kAnySize, kH200Nov22},
        &choices.threads_per_sm_min);
  visit({"cuda.windows.together_threads_per_sm_min",
         "threads for a multiprocessor", kAnySize, kH200Nov22},
        &choices.together_threads_per_sm_min);
}

void visit_cuda_stencil(CudaStencilChoices& choices, const VisitChoice& visit) {
  visit({"cuda.stencil.kept_planes_max", "planes", {0, 64}, kH200Nov25},
        &choices.kept_planes_max);
  visit({"cuda.stencil.written_reads_max", "reads", {0, 8192}, kH200Nov25},
        &choices.written_reads_max);
  visit({"cuda.stencil.walk_windows_max", "windows", kSomeAtATime, kH200Nov25},
        &choices.walk_windows_max);
  visit({"cuda.stencil.walk_windows_min", "windows", kSomeAtATime, kH200Nov25},
        &choices.walk_windows_min);
  visit({"cuda.stencil.threads_per_sm_min", "threads for a multiprocessor",
         kAnySize, kH200Nov25},
        &choices.threads_per_sm_min);
  visit({"cuda.stencil.halo_vectors_max", "vector loads", {0, 64}, kH200Nov25},
        &choices.halo_vectors_max);
  visit({"cuda.stencil.tried_pairs_max",
         "pairs",
         {1, 0x1p20},
         "rule: host time, 2026-11-25"},
        &choices.tried_pairs_max);
}

}  // namespace

void visit_triton(TritonChoices& choices, const VisitChoice& visit) {
  visit_triton_nest(choices.nest, visit);
  visit_triton_product(choices.product, visit);
}

void visit_cuda(CudaChoices& choices, const VisitChoice& visit) {
  visit_cuda_rows(choices.rows, visit);
  visit_cuda_stream(choices.stream, visit);
  visit_cuda_windows(choices.windows, visit);
  visit_cuda_stencil(choices.stencil, visit);
}

}  // namespace weft
