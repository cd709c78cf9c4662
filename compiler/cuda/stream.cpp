// Single-pass normalisation of rows too long for one block. Warp-specialised: a
// producer warp issues bulk copies into a ring of shared-memory slots,
// reduction warps reduce each slot, a publisher and a gather warp exchange
// partials with the blocks that share the row through global memory, and store
// warps run the epilogue. Row i is stored while row i + 1 is reduced and row i
// + 2 is loading.
#include "compiler/cuda/nest.hpp"

namespace weft {
namespace {

// Roles of a block's warps: 0 is the producer, 2 gathers partials.
constexpr int kPublisherWarp = 1;
constexpr int kFirstReduceWarp = 3;

/// Messages of a block's partial: each carries three words of it.
std::int64_t messages_of(const CudaReduction& reduction) {
  return ceil_div(reduction.value_bytes(), 12);
}

}  // namespace

void CudaNest::print_streamed() {
  module_.streams = true;
  const CudaReduction reduction = reduction_of(*passes_.front().stages.front());
  // Two words of eight bytes are a message.
  print_clearing("Word", partial_name(reduction),
                 2 * kernel_plan_.cooperative_groups *
                     kernel_plan_.rows_in_flight * kernel_plan_.blocks *
                     messages_of(reduction),
                 8);
  CudaKernel kernel(program(), module_, kernel_plan_.lane,
                    kernel_plan_.vector_width, wide_);
  kernel.expect_inner(kernel_plan_.persistent_inner);
  Writer& out = kernel.out();
  open_stream(kernel, reduction);
  out.open("if (warp == 0)");
  read_stream(kernel);
  out.otherwise("if (warp == " + text(kPublisherWarp) + ")");
  open_stream_rows(kernel);
  out.line("exchange.publish(mailbox, rank, i);");
  out.close();
  out.otherwise("if (warp >= " + text(first_store_warp()) + ")");
  store_stream(kernel, reduction);
  out.otherwise("if (warp >= " + text(kFirstReduceWarp) + ")");
  fold_stream(kernel, reduction);
  out.otherwise("");
  open_stream_rows(kernel);
  out.line("exchange.gather(mailbox, i);");
  out.close();
  out.close();
  kernel.finish(launch());
}

void CudaNest::open_stream(CudaKernel& kernel, const CudaReduction& reduction) {
  kernel.need("stream");
  kernel.need("ring");
  Writer& out = kernel.out();
  const std::string blocks = text(kernel_plan_.blocks);
  const std::string rows = text(kernel_plan_.rows_in_flight);
  const std::int64_t vectors = kernel_plan_.row / kernel_plan_.vector_width;
  const std::string share = text(ceil_div(vectors, kernel_plan_.blocks));
  out.line("const int rank = blockIdx.x % " + blocks + ";");
  out.line("const int group = blockIdx.x / " + blocks + ";");
  out.line("const int warp = threadIdx.x / 32;");
  out.line("// This block's share of a row, in vectors.");
  out.line("const int first = rank * " + share + ";");
  out.line("const int count = min(" + share + ", " + text(vectors) +
           " - first);");
  declare_slots(kernel);
  out.line("__shared__ Ring<" + text(kernel_plan_.slots) + ", " +
           text(kernel_plan_.reduce_warps + kCudaStoreWarps) + "> ring;");
  out.line("__shared__ PartialExchange<" + reduction.reducer() + ", " +
           text(kernel_plan_.reduce_warps) + ", " + blocks + ", " + rows +
           "> exchange;");
  kernel.use("Word", partial_name(reduction));
  out.line(
      "PartialMessage* const mailbox = reinterpret_cast<PartialMessage*>(" +
      partial_name(reduction) + ") + group * " +
      text(kernel_plan_.rows_in_flight * kernel_plan_.blocks *
           messages_of(reduction)) +
      ";");
  out.open("if (threadIdx.x == 0)");
  out.line("ring.init();");
  out.line("exchange.init();");
  out.line("fence_barrier_init();");
  out.close();
  out.line("__syncthreads();");
}

void CudaNest::open_stream_rows(CudaKernel& kernel) {
  Writer& out = kernel.out();
  out.line("int i = 0;");
  out.open("for (" + kernel.index_type() + " p = group; p < " +
           text(kernel_plan_.points) +
           "; p += " + text(kernel_plan_.cooperative_groups) + ", ++i)");
}

// The producer runs ahead as far as slots are free.
void CudaNest::read_stream(CudaKernel& kernel) {
  Writer& out = kernel.out();
  const std::string chunk = text(kernel_plan_.chunk);
  out.open("if (threadIdx.x == 0)");
  out.line("RingPosition<" + text(kernel_plan_.slots) + "> position;");
  out.line("RingPosition<" + text(kernel_plan_.slots) + "> arrived;");
  out.line("int copies_in_flight = 0;");
  open_stream_rows(kernel);
  kernel.declare(nest_.outer, "p");
  out.open("for (int c = 0; c < " + text(kernel_plan_.steps) + "; ++c)");
  out.line("const int vectors = max(0, min(" + chunk + ", count - c * " +
           chunk + "));");
  std::int64_t bytes = 0;
  for (const ExprId load : kernel_plan_.persistent) bytes += vector_bytes(load);
  out.open("if (++copies_in_flight > " + text(kernel_plan_.copies_in_flight) +
           ")");
  out.line("ring.wait_full(arrived);");
  out.line("arrived.next();");
  out.close();
  out.line("ring.acquire(position, vectors * " + text(bytes) + ");");
  out.open("if (vectors > 0)");
  out.line("const int r = (first + c * " + chunk + ") * " +
           text(kernel_plan_.vector_width) + ";");
  kernel.declare(kernel_plan_.persistent_inner, "r");
  for (const ExprId load : kernel_plan_.persistent) {
    const Scalar& node = program().arena[load];
    kernel.use(node.buffer);
    out.line("copy_bulk(ring" + text(load) + " + position.slot * " + chunk +
             ", " + program().buffers[node.buffer].name + " + " +
             kernel.index(node.index[0]) + ", vectors * " +
             text(vector_bytes(load)) + ", ring.full + position.slot);");
  }
  out.close();
  out.line("position.next();");
  out.close();
  out.close();
  out.close();
}

void CudaNest::fold_stream(CudaKernel& kernel, const CudaReduction& reduction) {
  const Pass& pass = passes_.front();
  const auto names = kernel.names();
  open_stream_warps(kernel, kFirstReduceWarp);
  open_stream_rows(kernel);
  kernel.declare(nest_.outer, "p");
  kernel.compute(cuda_roots(pass), true);
  reduction.declare(kernel);
  fold_chunks(kernel, pass, reduction);
  kernel.out().line("exchange.fold(" + reduction.closed(kernel) +
                    ", i, t / 32);");
  kernel.out().close();
  kernel.set_names(names);
}

// Reduces a row's chunks in the order of their arrival.
void CudaNest::fold_chunks(CudaKernel& kernel, const Pass& pass,
                           const CudaReduction& reduction) {
  Writer& out = kernel.out();
  const std::string chunk = text(kernel_plan_.chunk);
  const std::string threads = text(32 * kernel_plan_.reduce_warps);
  const std::int64_t vectors =
      kernel_plan_.chunk / (32 * kernel_plan_.reduce_warps);
  const std::string all = "for (int u = 0; u < " + text(vectors) + "; ++u)";
  out.open("for (int c = 0; c < " + text(kernel_plan_.steps) +
           "; ++c, position.next())");
  declare_chunks(kernel, vectors);
  out.line("ring.wait_full(position);");
  out.line("#pragma unroll");
  out.open(all);
  read_chunk(kernel, "u * " + threads + " + t");
  out.close();
  out.line("ring.release(position);");
  out.open("const auto step = [&](int u)");
  out.line("const int r = (first + c * " + chunk + " + u * " + threads +
           " + t) * " + text(kernel_plan_.vector_width) + ";");
  kernel.declare(pass.inner, "r");
  print_tile(kernel, pass, {reduction}, true);
  out.close("};");
  out.line("const int vectors = count - c * " + chunk + ";");
  out.open("if (vectors >= " + chunk + ")");
  out.line("#pragma unroll");
  out.line(all + " step(u);");
  out.otherwise("");
  out.line("#pragma unroll");
  out.open(all);
  out.line("if (u * " + threads + " + t < vectors) step(u);");
  out.close();
  out.close();
  out.close();
}

// Store warps prefetch a row's first chunks into registers before its reduction
// is known, which frees their slots for later rows. As each chunk is stored,
// the next row's replaces it.
void CudaNest::store_stream(CudaKernel& kernel,
                            const CudaReduction& reduction) {
  Writer& out = kernel.out();
  const auto names = kernel.names();
  const std::string register_chunks = text(kernel_plan_.register_chunks);
  const bool keeps_all = kernel_plan_.register_chunks == kernel_plan_.steps;
  open_stream_warps(kernel, first_store_warp());
  declare_chunks(kernel, kernel_plan_.register_chunks + (keeps_all ? 0 : 1));
  out.open("const auto read = [&](int u)");
  out.line("ring.wait_full(position);");
  read_chunk(kernel, "t");
  out.line("ring.release(position);");
  out.line("position.next();");
  out.close("};");
  out.line("#pragma unroll");
  out.line("for (int c = 0; c < " + register_chunks + "; ++c) read(c);");
  open_stream_rows(kernel);
  kernel.declare(nest_.outer, "p");
  out.line("const " + reduction.value_type() + " " + reduction.whole() +
           " = exchange.whole(i);");
  reduction.conclude(kernel, reduction.whole(), false);
  spill_all(kernel, reduction);
  for (const Pass& pass : passes_) {
    if (&pass == &passes_.front()) continue;
    if (pass.inner.empty()) {
      print_points(kernel, pass);
      continue;
    }
    // There is one such pass, which takes each chunk from the ring once.
    kernel.compute(cuda_roots(pass), true);
    out.open("const auto store = [&](int u, int c)");
    out.line("if (c * " + text(kernel_plan_.chunk) + " + t >= count) return;");
    out.line("const int r = (first + c * " + text(kernel_plan_.chunk) +
             " + t) * " + text(kernel_plan_.vector_width) + ";");
    kernel.declare(pass.inner, "r");
    print_tile(kernel, pass, {}, true);
    out.close("};");
    if (!keeps_all) {
      out.open("for (int c = " + register_chunks + "; c < " +
               text(kernel_plan_.steps) + "; ++c)");
      out.line("read(" + register_chunks + ");");
      out.line("store(" + register_chunks + ", c);");
      out.close();
    }
    out.line("#pragma unroll");
    out.open("for (int c = 0; c < " + register_chunks + "; ++c)");
    out.line("store(c, c);");
    out.line("if (p + " + text(kernel_plan_.cooperative_groups) + " < " +
             text(kernel_plan_.points) + ") read(c);");
    out.close();
  }
  out.close();
  kernel.set_names(names);
}

int CudaNest::first_store_warp() const {
  return kFirstReduceWarp + kernel_plan_.reduce_warps;
}

void CudaNest::open_stream_warps(CudaKernel& kernel, int first_warp) {
  Writer& out = kernel.out();
  out.line("const int t = threadIdx.x - " + text(32 * first_warp) + ";");
  out.line("RingPosition<" + text(kernel_plan_.slots) + "> position;");
}

// Registers for so many vectors of each persistent array.
void CudaNest::declare_chunks(CudaKernel& kernel, std::int64_t vectors) {
  for (const ExprId load : kernel_plan_.persistent) {
    kernel.out().line(vector_type(load) + " h" + text(load) + "[" +
                      text(vectors) + "];");
  }
}

// Reads a vector of the current chunk into the registers `u`.
void CudaNest::read_chunk(CudaKernel& kernel, const std::string& vector) {
  for (const ExprId load : kernel_plan_.persistent) {
    kernel.out().line("h" + text(load) + "[u] = load_shared(ring" + text(load) +
                      " + position.slot * " + text(kernel_plan_.chunk) + " + " +
                      vector + ");");
  }
}

}  // namespace weft
