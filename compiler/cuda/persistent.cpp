// Persistent rows: what several passes read stays on chip, in a thread's
// registers or in its own slots of shared memory. A ring of slots has room for
// more than one row's share, so that the next row is prefetched while this one
// is reduced and stored.
#include <algorithm>

#include "compiler/cuda/nest.hpp"

namespace weft {
bool CudaNest::is_persistent(const Pass& pass) const {
  return kernel_plan_.persistence != Persistence::nothing &&
         pass.inner == kernel_plan_.persistent_inner;
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
         text(kernel_plan_.vector_width) + ">";
}

std::int64_t CudaNest::vector_bytes(ExprId load) const {
  return kernel_plan_.vector_width * element_bytes(program().arena[load].dtype);
}

std::int64_t CudaNest::ring_bytes() const {
  if (kernel_plan_.persistence == Persistence::stream &&
      kernel_plan_.outer_reduction) {
    // Behind the last row are columns that do not exist.
    const std::int64_t columns = nest_.outer.back().extent;
    return (kernel_plan_.slots * kernel_plan_.chunk * columns +
            kernel_plan_.vector_width * kernel_plan_.points_per_block -
            columns) *
           element_bytes(
               program().arena[kernel_plan_.persistent.front()].dtype);
  }
  std::int64_t bytes = 0;
  for (const ExprId load : kernel_plan_.persistent) {
    bytes += kernel_plan_.slots * slot_vectors() * vector_bytes(load);
  }
  return bytes;
}

// A slot of a ring holds one vector of each thread, or a chunk of a stream.
std::int64_t CudaNest::slot_vectors() const {
  return kernel_plan_.persistence == Persistence::stream ? kernel_plan_.chunk
                                                         : kernel_plan_.threads;
}

// Into registers, before the first pass: all at once, for more loads in flight.
void CudaNest::read_persistent(CudaKernel& kernel, const Pass& pass) {
  if (!is_first_persistent(pass)) return;
  Writer& out = kernel.out();
  for (const ExprId load : kernel_plan_.persistent) {
    out.line(vector_type(load) + " h" + text(load) + "[" +
             text(kernel_plan_.steps) + "];");
  }
  out.line("#pragma unroll");
  out.open("for (int u = 0; u < " + text(kernel_plan_.steps) + "; ++u)");
  declare_row_index(kernel, "u");
  if (is_ragged(pass)) {
    out.open("if (" + in_row(extent_of(pass.inner)) + ")");
  }
  kernel.declare(pass.inner, "r");
  for (const ExprId load : kernel_plan_.persistent) {
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
  for (const ExprId load : kernel_plan_.persistent) {
    if (kernel_plan_.persistence != Persistence::ring) {
      kernel.set_persistent(load, "h" + text(load) + "[u]");
      continue;
    }
    kernel.out().line("const " + vector_type(load) + " h" + text(load) +
                      " = load_shared(ring" + text(load) + " + slot * " +
                      text(kernel_plan_.threads) + ");");
    kernel.set_persistent(load, "h" + text(load));
  }
}

void CudaNest::declare_slots(CudaKernel& kernel) {
  Writer& out = kernel.out();
  out.line("extern __shared__ __align__(16) unsigned char memory[];");
  std::int64_t bytes = 0;
  for (const ExprId load : kernel_plan_.persistent) {
    const std::string type = vector_type(load);
    out.line(type + "* const ring" + text(load) + " = reinterpret_cast<" +
             type + "*>(memory + " + text(bytes) + ")" +
             (kernel_plan_.persistence == Persistence::ring ? " + threadIdx.x;"
                                                            : ";"));
    bytes += kernel_plan_.slots * slot_vectors() * vector_bytes(load);
  }
}

void CudaNest::declare_ring(CudaKernel& kernel) {
  kernel.need("ring");
  declare_slots(kernel);
  Writer& out = kernel.out();
  const std::string index_type = kernel.index_type();
  out.line("// Begins to copy this thread's vector `u` of row `p`.");
  out.open("const auto prefetch = [&](" + index_type + " p, int u, int slot)");
  open_ahead(kernel);
  for (const ExprId load : kernel_plan_.persistent) {
    const Scalar& node = program().arena[load];
    kernel.use(node.buffer);
    const std::string copy =
        kernel_plan_.shifted
            ? "copy_masked<" + text(kernel_plan_.vector_width) + ">("
            : "copy_async<" + text(vector_bytes(load)) + ">(";
    out.line(copy + "ring" + text(load) + " + slot * " +
             text(kernel_plan_.threads) + ", " +
             program().buffers[node.buffer].name + " + " +
             kernel.index(node.index[0]) +
             (kernel_plan_.shifted ? ", r, " + row_end() : "") + ");");
  }
  out.close();
  out.close();
  out.line("commit_copies();");
  out.close("};");
  if (cache_prefetch_steps() > 0) {
    out.line("// Prefetches that vector into the L2 cache.");
    out.open("const auto prefetch_to_cache = [&](" + index_type + " p, int u)");
    open_ahead(kernel);
    for (const ExprId load : kernel_plan_.persistent) {
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
  const std::string steps = text(kernel_plan_.steps);
  out.line("#pragma unroll");
  out.open("for (int n = 0; n < " + text(kernel_plan_.slots) + "; ++n)");
  out.line("prefetch(" +
           std::string(kernel_plan_.blocks > 1 ? "group" : "blockIdx.x") +
           " + n / " + steps + " * " + text(kernel_plan_.cooperative_groups) +
           ", n % " + steps + ", n);");
  out.close();
  out.line("int base = 0;  // the slot of a row's first vector");
  out.line("int slot = 0;");
}

// Opens two blocks: where row `p` has the vector `u` of this thread.
void CudaNest::open_ahead(CudaKernel& kernel) {
  Writer& out = kernel.out();
  out.open("if (p < " + text(kernel_plan_.points) + ")");
  kernel.declare(nest_.outer, "p");
  declare_shift(kernel);
  declare_row_index(kernel, "u");
  out.open("if (" + in_row(kernel_plan_.row) + ")");
  kernel.declare(kernel_plan_.persistent_inner, "r");
}

// Vectors of the next row for which the ring has no slot yet.
std::int64_t CudaNest::cache_prefetch_steps() const {
  return std::max<std::int64_t>(0, 2 * kernel_plan_.steps - kernel_plan_.slots);
}

// Keeps memory busy while partials are combined.
void CudaNest::prefetch_next_to_cache(CudaKernel& kernel) {
  if (cache_prefetch_steps() == 0) return;
  Writer& out = kernel.out();
  out.line("#pragma unroll");
  out.open("for (int u = " + text(kernel_plan_.steps - cache_prefetch_steps()) +
           "; u < " + text(kernel_plan_.steps) + "; ++u)");
  out.line("prefetch_to_cache(p + " + text(kernel_plan_.cooperative_groups) +
           ", u);");
  out.close();
}

// Refills the slot that was read last.
void CudaNest::prefetch_next(CudaKernel& kernel) {
  const std::string ahead =
      "(u + " + text(kernel_plan_.slots) + ") / " + text(kernel_plan_.steps);
  kernel.out().line("prefetch(p + " + ahead + " * " +
                    text(kernel_plan_.cooperative_groups) + ", (u + " +
                    text(kernel_plan_.slots) + ") % " +
                    text(kernel_plan_.steps) + ", slot);");
}

}  // namespace weft
