// Persistent rows: what several passes read stays on chip, in a thread's
// registers or in its own slots of shared memory. A ring of slots has room for
// more than one row's share, so that the next row is prefetched while this one
// is reduced and stored.
#include <algorithm>

#include "compiler/cuda/nest.hpp"

namespace weft {
bool CudaNest::is_persistent(const Pass& pass) const {
  return shape_.persistence != Persistence::nothing &&
         pass.inner == shape_.persistent_inner;
}

bool CudaNest::is_first_persistent(const Pass& pass) const {
  const auto first = std::ranges::find_if(
      passes_, [&](const Pass& each) { return is_persistent(each); });
  return first != passes_.end() && &*first == &pass;
}

bool CudaNest::is_last_persistent(const Pass& pass) const {
  const Pass* last = nullptr;
  for (const Pass& each : passes_) {
    if (is_persistent(each)) last = &each;
  }
  return last == &pass;
}

std::string CudaNest::vector_type(ExprId load) const {
  return "Vector<" + cuda_type(program().arena[load].dtype) + ", " +
         text(shape_.lanes) + ">";
}

std::int64_t CudaNest::vector_bytes(ExprId load) const {
  return shape_.lanes * element_bytes(program().arena[load].dtype);
}

std::int64_t CudaNest::ring_bytes() const {
  if (shape_.persistence == Persistence::stream && shape_.columns) {
    // Behind the last row are columns that do not exist.
    const std::int64_t columns = nest_.outer.back().extent;
    return (shape_.slots * shape_.chunk * columns +
            shape_.lanes * shape_.across - columns) *
           element_bytes(program().arena[shape_.persistent.front()].dtype);
  }
  std::int64_t bytes = 0;
  for (const ExprId load : shape_.persistent) {
    bytes += shape_.slots * slot_vectors() * vector_bytes(load);
  }
  return bytes;
}

// A slot of a ring holds one vector of each thread, or a chunk of a stream.
std::int64_t CudaNest::slot_vectors() const {
  return shape_.persistence == Persistence::stream ? shape_.chunk
                                                   : shape_.threads;
}

// Into registers, before the first pass: all at once, for more loads in flight.
void CudaNest::read_persistent(CudaKernel& kernel, const Pass& pass) {
  if (!is_first_persistent(pass)) return;
  Writer& out = kernel.out();
  for (const ExprId load : shape_.persistent) {
    out.line(vector_type(load) + " h" + text(load) + "[" + text(shape_.steps) +
             "];");
  }
  out.line("#pragma unroll");
  out.open("for (int u = 0; u < " + text(shape_.steps) + "; ++u)");
  declare_place(kernel, "u");
  if (is_ragged(pass)) {
    out.open("if (" + in_row(extent_of(pass.inner)) + ")");
  }
  kernel.declare(pass.inner, "r");
  for (const ExprId load : shape_.persistent) {
    const Scalar& node = program().arena[load];
    kernel.use(node.buffer);
    out.line("h" + text(load) + "[u] = " +
             kernel.load_call(program().buffers[node.buffer].name + " + " +
                              kernel.index(node.index[0])) +
             ";");
  }
  if (is_ragged(pass)) out.close();
  out.close();
}

void CudaNest::find_persistent(CudaKernel& kernel) {
  for (const ExprId load : shape_.persistent) {
    if (shape_.persistence != Persistence::ring) {
      kernel.set_persistent(load, "h" + text(load) + "[u]");
      continue;
    }
    kernel.out().line("const " + vector_type(load) + " h" + text(load) +
                      " = load_shared(ring" + text(load) + " + slot * " +
                      text(shape_.threads) + ");");
    kernel.set_persistent(load, "h" + text(load));
  }
}

void CudaNest::declare_slots(CudaKernel& kernel) {
  Writer& out = kernel.out();
  out.line("extern __shared__ __align__(16) unsigned char memory[];");
  std::int64_t bytes = 0;
  for (const ExprId load : shape_.persistent) {
    const std::string type = vector_type(load);
    out.line(
        type + "* const ring" + text(load) + " = reinterpret_cast<" + type +
        "*>(memory + " + text(bytes) + ")" +
        (shape_.persistence == Persistence::ring ? " + threadIdx.x;" : ";"));
    bytes += shape_.slots * slot_vectors() * vector_bytes(load);
  }
}

void CudaNest::declare_ring(CudaKernel& kernel) {
  kernel.need("ring");
  declare_slots(kernel);
  Writer& out = kernel.out();
  const std::string place = kernel.place_type();
  out.line("// Begins to copy this thread's vector `u` of row `p`.");
  out.open("const auto prefetch = [&](" + place + " p, int u, int slot)");
  open_ahead(kernel);
  for (const ExprId load : shape_.persistent) {
    const Scalar& node = program().arena[load];
    kernel.use(node.buffer);
    const std::string copy =
        shape_.shifted ? "copy_masked<" + text(shape_.lanes) + ">("
                       : "copy_async<" + text(vector_bytes(load)) + ">(";
    out.line(copy + "ring" + text(load) + " + slot * " + text(shape_.threads) +
             ", " + program().buffers[node.buffer].name + " + " +
             kernel.index(node.index[0]) +
             (shape_.shifted ? ", r, " + row_end() : "") + ");");
  }
  out.close();
  out.close();
  out.line("commit_copies();");
  out.close("};");
  if (cache_prefetch_steps() > 0) {
    out.line("// Prefetches that vector into the L2 cache.");
    out.open("const auto prefetch_to_cache = [&](" + place + " p, int u)");
    open_ahead(kernel);
    for (const ExprId load : shape_.persistent) {
      const Scalar& node = program().arena[load];
      const std::int64_t line = 128 / vector_bytes(load);
      out.line("if (threadIdx.x % " + text(line) + " == 0) prefetch_line(" +
               program().buffers[node.buffer].name + " + " +
               kernel.index(node.index[0]) + ");");
    }
    out.close();
    out.close();
    out.close("};");
  }
  const std::string steps = text(shape_.steps);
  out.line("#pragma unroll");
  out.open("for (int n = 0; n < " + text(shape_.slots) + "; ++n)");
  out.line("prefetch(" +
           std::string(shape_.blocks > 1 ? "group" : "blockIdx.x") + " + n / " +
           steps + " * " + text(shape_.teams) + ", n % " + steps + ", n);");
  out.close();
  out.line("int base = 0;  // the slot of a row's first vector");
  out.line("int slot = 0;");
}

// Opens two blocks: where row `p` has the vector `u` of this thread.
void CudaNest::open_ahead(CudaKernel& kernel) {
  Writer& out = kernel.out();
  out.open("if (p < " + text(shape_.points) + ")");
  kernel.declare(nest_.outer, "p");
  declare_shift(kernel);
  declare_place(kernel, "u");
  out.open("if (" + in_row(shape_.row) + ")");
  kernel.declare(shape_.persistent_inner, "r");
}

// Vectors of the next row for which the ring has no slot yet.
std::int64_t CudaNest::cache_prefetch_steps() const {
  return std::max<std::int64_t>(0, 2 * shape_.steps - shape_.slots);
}

// Keeps memory busy while partials are combined.
void CudaNest::prefetch_next_to_cache(CudaKernel& kernel) {
  if (cache_prefetch_steps() == 0) return;
  Writer& out = kernel.out();
  out.line("#pragma unroll");
  out.open("for (int u = " + text(shape_.steps - cache_prefetch_steps()) +
           "; u < " + text(shape_.steps) + "; ++u)");
  out.line("prefetch_to_cache(p + " + text(shape_.teams) + ", u);");
  out.close();
}

// Refills the slot that was read last.
void CudaNest::prefetch_next(CudaKernel& kernel) {
  const std::string ahead =
      "(u + " + text(shape_.slots) + ") / " + text(shape_.steps);
  kernel.out().line("prefetch(p + " + ahead + " * " + text(shape_.teams) +
                    ", (u + " + text(shape_.slots) + ") % " +
                    text(shape_.steps) + ", slot);");
}

}  // namespace weft
