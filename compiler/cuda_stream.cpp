// Rows that stream through shared memory: read once, folded, and stored when
// all blocks that share a row know what it comes to. Each part of that is some
// warps' alone, so that the memory always has something to do: while one row
// waits for the other blocks' folds, the next is read and folded, and the one
// before is stored.
#include "compiler/cuda_nest.hpp"

namespace weft {
namespace {

// Of a block: warp 0 reads.
constexpr int telling_warp = 1;
constexpr int first_folding_warp = 3;  ///< and 2 hears
constexpr int first_storing_warp = first_folding_warp + cuda_folding_warps;

std::string text(std::int64_t number) { return std::to_string(number); }

std::int64_t words_of(const CudaFold& fold) {
  return ceil_div(fold.value_bytes(), 4);
}

}  // namespace

void CudaNest::print_streamed() {
  module_.streams = true;
  const CudaFold fold = fold_of(*passes_.front().stages.front());
  print_clearing(
      "Word", part_name(fold),
      shape_.teams * shape_.rows_under_way * shape_.blocks * words_of(fold), 8);
  CudaKernel kernel(program(), module_, shape_.lane, shape_.lanes, wide_);
  kernel.expect_inner(shape_.held_inner);
  Writer& out = kernel.out();
  open_stream(kernel, fold);
  out.open("if (warp == 0)");
  read_stream(kernel);
  out.otherwise("if (warp == " + text(telling_warp) + ")");
  open_stream_rows(kernel);
  out.line("gathering.tell(told, rank, i);");
  out.close();
  out.otherwise("if (warp >= " + text(first_storing_warp) + ")");
  store_stream(kernel, fold);
  out.otherwise("if (warp >= " + text(first_folding_warp) + ")");
  fold_stream(kernel, fold);
  out.otherwise("");
  open_stream_rows(kernel);
  out.line("gathering.hear(told, i);");
  out.close();
  out.close();
  kernel.finish(launch());
}

void CudaNest::open_stream(CudaKernel& kernel, const CudaFold& fold) {
  kernel.need("stream");
  kernel.need("ring");
  Writer& out = kernel.out();
  const std::string blocks = text(shape_.blocks);
  const std::string rows = text(shape_.rows_under_way);
  const std::int64_t packs = shape_.row / shape_.lanes;
  const std::string share = text(ceil_div(packs, shape_.blocks));
  out.line("const int rank = blockIdx.x % " + blocks + ";");
  out.line("const int group = blockIdx.x / " + blocks + ";");
  out.line("const int warp = threadIdx.x / 32;");
  out.line("// This block's packs of a row, and how many these are.");
  out.line("const int first = rank * " + share + ";");
  out.line("const int count = min(" + share + ", " + text(packs) +
           " - first);");
  declare_slots(kernel);
  out.line("__shared__ Ring<" + text(shape_.slots) + ", " +
           text(cuda_storing_warps) + "> ring;");
  out.line("__shared__ Gathering<" + fold.reducer() + ", " +
           text(cuda_folding_warps) + ", " + blocks + ", " + rows +
           "> gathering;");
  kernel.use("Word", part_name(fold));
  out.line("Word* const told = " + part_name(fold) + " + group * " +
           text(shape_.rows_under_way * shape_.blocks * words_of(fold)) + ";");
  out.open("if (threadIdx.x == 0)");
  out.line("ring.begin();");
  out.line("gathering.begin();");
  out.line("barriers_begun();");
  out.close();
  out.line("__syncthreads();");
}

void CudaNest::open_stream_rows(CudaKernel& kernel) {
  Writer& out = kernel.out();
  out.line("int i = 0;");
  out.open("for (" + kernel.place_type() + " p = group; p < " +
           text(shape_.points) + "; p += " + text(shape_.teams) + ", ++i)");
}

// Ahead of all others, as far as slots are free.
void CudaNest::read_stream(CudaKernel& kernel) {
  Writer& out = kernel.out();
  const std::string chunk = text(shape_.chunk);
  out.open("if (threadIdx.x == 0)");
  out.line("Turn<" + text(shape_.slots) + "> turn;");
  out.line("Turn<" + text(shape_.slots) + "> arrived;");
  out.line("int coming = 0;");
  open_stream_rows(kernel);
  kernel.declare(nest_.outer, "p");
  out.open("for (int c = 0; c < " + text(shape_.steps) + "; ++c)");
  out.line("const int packs = max(0, min(" + chunk + ", count - c * " + chunk +
           "));");
  std::int64_t bytes = 0;
  for (const ExprId load : shape_.held) bytes += pack_bytes(load);
  out.open("if (++coming > " + text(shape_.coming) + ")");
  out.line("ring.await(arrived);");
  out.line("arrived.next();");
  out.close();
  out.line("ring.announce(turn, packs * " + text(bytes) + ");");
  out.open("if (packs > 0)");
  out.line("const int r = (first + c * " + chunk + ") * " + text(shape_.lanes) +
           ";");
  kernel.declare(shape_.held_inner, "r");
  for (const ExprId load : shape_.held) {
    const Scalar& node = program().arena[load];
    kernel.use(node.buffer);
    out.line("copy_bulk(ring" + text(load) + " + turn.slot * " + chunk + ", " +
             program().buffers[node.buffer].name + " + " +
             kernel.index(node.index[0]) + ", packs * " +
             text(pack_bytes(load)) + ", ring.full + turn.slot);");
  }
  out.close();
  out.line("turn.next();");
  out.close();
  out.close();
  out.close();
}

void CudaNest::fold_stream(CudaKernel& kernel, const CudaFold& fold) {
  const Pass& pass = passes_.front();
  const auto names = kernel.names();
  open_stream_warps(kernel, first_folding_warp);
  kernel.compute(cuda_roots(pass), true);
  fold.declare(kernel);
  print_chunks(kernel, pass, {fold}, cuda_folding_warps);
  kernel.out().line("gathering.fold(" + fold.closed(kernel) + ", i, t / 32);");
  kernel.out().close();
  kernel.set_names(names);
}

void CudaNest::store_stream(CudaKernel& kernel, const CudaFold& fold) {
  const auto names = kernel.names();
  open_stream_warps(kernel, first_storing_warp);
  kernel.out().line("const " + fold.value_type() + " " + fold.whole() +
                    " = gathering.whole(i);");
  fold.conclude(kernel, fold.whole(), false);
  spill_all(kernel, fold);
  for (const Pass& pass : passes_) {
    if (&pass == &passes_.front()) continue;
    if (pass.inner.empty()) {
      print_points(kernel, pass);
      continue;
    }
    kernel.compute(cuda_roots(pass), true);
    print_chunks(kernel, pass, {}, cuda_storing_warps);
  }
  kernel.out().close();
  kernel.set_names(names);
}

void CudaNest::open_stream_warps(CudaKernel& kernel, int first_warp) {
  Writer& out = kernel.out();
  out.line("const int t = threadIdx.x - " + text(32 * first_warp) + ";");
  out.line("Turn<" + text(shape_.slots) + "> turn;");
  open_stream_rows(kernel);
  kernel.declare(nest_.outer, "p");
}

// A pass over a row's chunks, as they come. Who stores has a chunk in registers
// before that, so that its slot is free while stores wait for the memory.
void CudaNest::print_chunks(CudaKernel& kernel, const Pass& pass,
                            const std::vector<CudaFold>& folds, int warps) {
  Writer& out = kernel.out();
  const std::string chunk = text(shape_.chunk);
  const std::string threads = text(32 * warps);
  const std::string all =
      "for (int u = 0; u < " + text(shape_.chunk / (32 * warps)) + "; ++u)";
  out.open("for (int c = 0; c < " + text(shape_.steps) + "; ++c, turn.next())");
  for (const ExprId load : shape_.held) {
    out.line(pack_type(load) + " h" + text(load) + "[" +
             text(shape_.chunk / (32 * warps)) + "];");
  }
  out.line("ring.await(turn);");
  for (const ExprId load : shape_.held) {
    out.line("#pragma unroll");
    out.open(all);
    out.line("h" + text(load) + "[u] = read_slot(ring" + text(load) +
             " + turn.slot * " + chunk + " + u * " + threads + " + t);");
    out.close();
  }
  if (folds.empty()) out.line("ring.empty(turn);");
  out.open("const auto step = [&](int u)");
  out.line("const int r = (first + c * " + chunk + " + u * " + threads +
           " + t) * " + text(shape_.lanes) + ";");
  kernel.declare(pass.inner, "r");
  print_tile(kernel, pass, folds, true);
  out.close("};");
  out.line("const int packs = count - c * " + chunk + ";");
  out.open("if (packs >= " + chunk + ")");
  out.line("#pragma unroll");
  out.line(all + " step(u);");
  out.otherwise("");
  out.line("#pragma unroll");
  out.open(all);
  out.line("if (u * " + threads + " + t < packs) step(u);");
  out.close();
  out.close();
  out.close();
}

}  // namespace weft
