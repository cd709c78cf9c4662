// Persistent rows: what several passes read stays on chip: in a thread's
// registers, or in its own slots of shared memory. A ring of slots has room for
// more than one row's share, so that the next row is under way while this one
// is folded and stored.
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

std::string CudaNest::pack_type(ExprId load) const {
  return "Pack<" + cuda_type(program().arena[load].dtype) + ", " +
         text(shape_.lanes) + ">";
}

std::int64_t CudaNest::pack_bytes(ExprId load) const {
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
    bytes += shape_.slots * slot_packs() * pack_bytes(load);
  }
  return bytes;
}

// A slot of a ring holds one pack of each thread, or a chunk of a stream.
std::int64_t CudaNest::slot_packs() const {
  return shape_.persistence == Persistence::stream ? shape_.chunk
                                                   : shape_.threads;
}

// Into registers, before the first pass: all at once, so that many loads are
// under way.
void CudaNest::read_persistent(CudaKernel& kernel, const Pass& pass) {
  if (!is_first_persistent(pass)) return;
  Writer& out = kernel.out();
  for (const ExprId load : shape_.persistent) {
    out.line(pack_type(load) + " h" + text(load) + "[" + text(shape_.steps) +
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
      kernel.hold(load, "h" + text(load) + "[u]");
      continue;
    }
    kernel.out().line("const " + pack_type(load) + " h" + text(load) +
                      " = read_slot(ring" + text(load) + " + slot * " +
                      text(shape_.threads) + ");");
    kernel.hold(load, "h" + text(load));
  }
}

void CudaNest::declare_slots(CudaKernel& kernel) {
  Writer& out = kernel.out();
  out.line("extern __shared__ __align__(16) unsigned char memory[];");
  std::int64_t bytes = 0;
  for (const ExprId load : shape_.persistent) {
    const std::string type = pack_type(load);
    out.line(
        type + "* const ring" + text(load) + " = reinterpret_cast<" + type +
        "*>(memory + " + text(bytes) + ")" +
        (shape_.persistence == Persistence::ring ? " + threadIdx.x;" : ";"));
    bytes += shape_.slots * slot_packs() * pack_bytes(load);
  }
}

void CudaNest::declare_ring(CudaKernel& kernel) {
  kernel.need("ring");
  declare_slots(kernel);
  Writer& out = kernel.out();
  const std::string place = kernel.place_type();
  out.line("// Begins to read this thread's pack `u` of row `p`.");
  out.open("const auto ask = [&](" + place + " p, int u, int slot)");
  open_far(kernel);
  for (const ExprId load : shape_.persistent) {
    const Scalar& node = program().arena[load];
    kernel.use(node.buffer);
    const std::string copy =
        shape_.shifted ? "copy_some<" + text(shape_.lanes) + ">("
                       : "copy_async<" + text(pack_bytes(load)) + ">(";
    out.line(copy + "ring" + text(load) + " + slot * " + text(shape_.threads) +
             ", " + program().buffers[node.buffer].name + " + " +
             kernel.index(node.index[0]) +
             (shape_.shifted ? ", r, " + row_end() : "") + ");");
  }
  out.close();
  out.close();
  out.line("close_group();");
  out.close("};");
  if (touched_steps() > 0) {
    out.line("// Brings that pack into the cache, from where it comes sooner.");
    out.open("const auto bring = [&](" + place + " p, int u)");
    open_far(kernel);
    for (const ExprId load : shape_.persistent) {
      const Scalar& node = program().arena[load];
      const std::int64_t line = 128 / pack_bytes(load);
      out.line("if (threadIdx.x % " + text(line) + " == 0) touch(" +
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
  out.line("ask(" + std::string(shape_.blocks > 1 ? "group" : "blockIdx.x") +
           " + n / " + steps + " * " + text(shape_.teams) + ", n % " + steps +
           ", n);");
  out.close();
  out.line("int base = 0;  // the slot of a row's first pack");
  out.line("int slot = 0;");
}

// Opens two blocks: where row `p` has the pack `u` of this thread.
void CudaNest::open_far(CudaKernel& kernel) {
  Writer& out = kernel.out();
  out.open("if (p < " + text(shape_.points) + ")");
  kernel.declare(nest_.outer, "p");
  declare_shift(kernel);
  declare_place(kernel, "u");
  out.open("if (" + in_row(shape_.row) + ")");
  kernel.declare(shape_.persistent_inner, "r");
}

// Of a row's packs those that find no slot while the row before is there.
std::int64_t CudaNest::touched_steps() const {
  return std::max<std::int64_t>(0, 2 * shape_.steps - shape_.slots);
}

// The memory has something to do while folds are put together.
void CudaNest::bring_next(CudaKernel& kernel) {
  if (touched_steps() == 0) return;
  Writer& out = kernel.out();
  out.line("#pragma unroll");
  out.open("for (int u = " + text(shape_.steps - touched_steps()) + "; u < " +
           text(shape_.steps) + "; ++u)");
  out.line("bring(p + " + text(shape_.teams) + ", u);");
  out.close();
}

// The slot is free: what will stand there next.
void CudaNest::ask_next(CudaKernel& kernel) {
  const std::string ahead =
      "(u + " + text(shape_.slots) + ") / " + text(shape_.steps);
  kernel.out().line("ask(p + " + ahead + " * " + text(shape_.teams) +
                    ", (u + " + text(shape_.slots) + ") % " +
                    text(shape_.steps) + ", slot);");
}

}  // namespace weft
