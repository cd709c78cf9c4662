// Rows that stream through shared memory: read once, folded, and stored when
// all blocks that share a row know what it comes to. Each part of that is some
// warps' alone, so that the memory always has something to do: while one row
// waits for the other blocks' folds, the next is read and folded, and the one
// before is stored.
#include "compiler/cuda/nest.hpp"

namespace weft {
namespace {

// Of a block: warp 0 reads.
constexpr int telling_warp = 1;
constexpr int first_folding_warp = 3;  ///< and 2 hears

/// Notes that tell what a block's part comes to: each has three words of it.
std::int64_t notes_of(const CudaFold& fold) {
  return ceil_div(fold.value_bytes(), 12);
}

}  // namespace

void CudaNest::print_streamed() {
  module_.streams = true;
  const CudaFold fold = fold_of(*passes_.front().stages.front());
  // Two words of eight bytes are a note.
  print_clearing(
      "Word", part_name(fold),
      2 * shape_.teams * shape_.rows_under_way * shape_.blocks * notes_of(fold),
      8);
  CudaKernel kernel(program(), module_, shape_.lane, shape_.lanes, wide_);
  kernel.expect_inner(shape_.persistent_inner);
  Writer& out = kernel.out();
  open_stream(kernel, fold);
  out.open("if (warp == 0)");
  read_stream(kernel);
  out.otherwise("if (warp == " + text(telling_warp) + ")");
  open_stream_rows(kernel);
  out.line("gathering.tell(told, rank, i);");
  out.close();
  out.otherwise("if (warp >= " + text(first_storing_warp()) + ")");
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
           text(shape_.folding_warps + kCudaStoringWarps) + "> ring;");
  out.line("__shared__ Gathering<" + fold.reducer() + ", " +
           text(shape_.folding_warps) + ", " + blocks + ", " + rows +
           "> gathering;");
  kernel.use("Word", part_name(fold));
  out.line("Note* const told = reinterpret_cast<Note*>(" + part_name(fold) +
           ") + group * " +
           text(shape_.rows_under_way * shape_.blocks * notes_of(fold)) + ";");
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
  for (const ExprId load : shape_.persistent) bytes += pack_bytes(load);
  out.open("if (++coming > " + text(shape_.coming) + ")");
  out.line("ring.await(arrived);");
  out.line("arrived.next();");
  out.close();
  out.line("ring.announce(turn, packs * " + text(bytes) + ");");
  out.open("if (packs > 0)");
  out.line("const int r = (first + c * " + chunk + ") * " + text(shape_.lanes) +
           ";");
  kernel.declare(shape_.persistent_inner, "r");
  for (const ExprId load : shape_.persistent) {
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
  open_stream_rows(kernel);
  kernel.declare(nest_.outer, "p");
  kernel.compute(cuda_roots(pass), true);
  fold.declare(kernel);
  fold_chunks(kernel, pass, fold);
  kernel.out().line("gathering.fold(" + fold.closed(kernel) + ", i, t / 32);");
  kernel.out().close();
  kernel.set_names(names);
}

// A row's chunks, as they come.
void CudaNest::fold_chunks(CudaKernel& kernel, const Pass& pass,
                           const CudaFold& fold) {
  Writer& out = kernel.out();
  const std::string chunk = text(shape_.chunk);
  const std::string threads = text(32 * shape_.folding_warps);
  const std::int64_t packs = shape_.chunk / (32 * shape_.folding_warps);
  const std::string all = "for (int u = 0; u < " + text(packs) + "; ++u)";
  out.open("for (int c = 0; c < " + text(shape_.steps) + "; ++c, turn.next())");
  declare_chunks(kernel, packs);
  out.line("ring.await(turn);");
  out.line("#pragma unroll");
  out.open(all);
  read_chunk(kernel, "u * " + threads + " + t");
  out.close();
  out.line("ring.empty(turn);");
  out.open("const auto step = [&](int u)");
  out.line("const int r = (first + c * " + chunk + " + u * " + threads +
           " + t) * " + text(shape_.lanes) + ";");
  kernel.declare(pass.inner, "r");
  print_tile(kernel, pass, {fold}, true);
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

// Who stores has a row's first chunks in registers before it is known what the
// row comes to: their slots are free for the rows behind it. As each is stored,
// the next row's takes its place.
void CudaNest::store_stream(CudaKernel& kernel, const CudaFold& fold) {
  Writer& out = kernel.out();
  const auto names = kernel.names();
  const std::string kept = text(shape_.kept);
  const bool keeps_all = shape_.kept == shape_.steps;
  open_stream_warps(kernel, first_storing_warp());
  declare_chunks(kernel, shape_.kept + (keeps_all ? 0 : 1));
  out.open("const auto read = [&](int u)");
  out.line("ring.await(turn);");
  read_chunk(kernel, "t");
  out.line("ring.empty(turn);");
  out.line("turn.next();");
  out.close("};");
  out.line("#pragma unroll");
  out.line("for (int c = 0; c < " + kept + "; ++c) read(c);");
  open_stream_rows(kernel);
  kernel.declare(nest_.outer, "p");
  out.line("const " + fold.value_type() + " " + fold.whole() +
           " = gathering.whole(i);");
  fold.conclude(kernel, fold.whole(), false);
  spill_all(kernel, fold);
  for (const Pass& pass : passes_) {
    if (&pass == &passes_.front()) continue;
    if (pass.inner.empty()) {
      print_points(kernel, pass);
      continue;
    }
    // There is one such pass, which takes each chunk from the ring once.
    kernel.compute(cuda_roots(pass), true);
    out.open("const auto store = [&](int u, int c)");
    out.line("if (c * " + text(shape_.chunk) + " + t >= count) return;");
    out.line("const int r = (first + c * " + text(shape_.chunk) + " + t) * " +
             text(shape_.lanes) + ";");
    kernel.declare(pass.inner, "r");
    print_tile(kernel, pass, {}, true);
    out.close("};");
    if (!keeps_all) {
      out.open("for (int c = " + kept + "; c < " + text(shape_.steps) +
               "; ++c)");
      out.line("read(" + kept + ");");
      out.line("store(" + kept + ", c);");
      out.close();
    }
    out.line("#pragma unroll");
    out.open("for (int c = 0; c < " + kept + "; ++c)");
    out.line("store(c, c);");
    out.line("if (p + " + text(shape_.teams) + " < " + text(shape_.points) +
             ") read(c);");
    out.close();
  }
  out.close();
  kernel.set_names(names);
}

int CudaNest::first_storing_warp() const {
  return first_folding_warp + shape_.folding_warps;
}

void CudaNest::open_stream_warps(CudaKernel& kernel, int first_warp) {
  Writer& out = kernel.out();
  out.line("const int t = threadIdx.x - " + text(32 * first_warp) + ";");
  out.line("Turn<" + text(shape_.slots) + "> turn;");
}

// Registers for so many packs of each array that is held.
void CudaNest::declare_chunks(CudaKernel& kernel, std::int64_t packs) {
  for (const ExprId load : shape_.persistent) {
    kernel.out().line(pack_type(load) + " h" + text(load) + "[" + text(packs) +
                      "];");
  }
}

// That pack of the chunk whose turn it is, into the registers `u`.
void CudaNest::read_chunk(CudaKernel& kernel, const std::string& pack) {
  for (const ExprId load : shape_.persistent) {
    kernel.out().line("h" + text(load) + "[u] = read_slot(ring" + text(load) +
                      " + turn.slot * " + text(shape_.chunk) + " + " + pack +
                      ");");
  }
}

}  // namespace weft
