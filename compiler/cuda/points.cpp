// What is computed and stored at points, and how results leave a kernel.
#include "compiler/cuda/nest.hpp"

namespace weft {
namespace {

std::string vector_name(std::size_t number) {
  return "y" + std::to_string(number);
}

}  // namespace

// A pass without inner variables. A reduction of one element is that element.
void CudaNest::print_points(CudaKernel& kernel, const Pass& pass) {
  const std::vector<ExprId> roots = cuda_roots(pass);
  kernel.compute(roots, false);
  std::vector<const Stage*> stores;
  std::vector<CudaReduction> reductions;
  for (const Stage* stage : pass.stages) {
    if (stage->is_store()) stores.push_back(stage);
    if (!stage->is_store()) reductions.emplace_back(program(), *stage);
  }
  for (const CudaReduction& reduction : reductions) reduction.declare(kernel);
  const auto names = kernel.names();
  if (!kernel_plan_.outer_reduction) {
    for (const CudaReduction& reduction : reductions) {
      kernel.out().line("const " + reduction.value_type() + " " +
                        reduction.whole() + " = " +
                        reduction.step_value(kernel) + ";");
      reduction.conclude(kernel, reduction.whole(), false);
      spill(kernel, reduction.stage());
    }
    for (const Stage* stage : stores) {
      kernel.use(stage->output);
      kernel.out().line(if_leader() + program().buffers[stage->output].name +
                        "[" + kernel.index(stage->offset) +
                        "] = " + kernel.operand(stage->value) + ";");
    }
    return;
  }
  kernel.out().open("");  // the next pass at these points has vectors, too
  declare_stores(kernel, stores);
  kernel.open_lanes();
  kernel.compute_lanes(roots);
  for (const CudaReduction& reduction : reductions) reduction.step(kernel);
  store_lanes(kernel, stores, if_leader());
  kernel.close_lanes();
  store_vectors(kernel, stores, if_leader());
  kernel.out().close();
  kernel.set_names(names);
  for (const CudaReduction& reduction : reductions) {
    reduction.conclude(kernel, reduction.accumulators() + kernel.at_lane(),
                       kernel_plan_.vector_width > 1);
    spill(kernel, reduction.stage());
  }
}

void CudaNest::declare_stores(CudaKernel& kernel,
                              const std::vector<const Stage*>& stores) {
  for (std::size_t i = 0; i < stores.size(); ++i) {
    kernel.use(stores[i]->output);
    if (kernel_plan_.vector_width == 1 ||
        !kernel.is_vector_access(stores[i]->offset))
      continue;
    kernel.out().line("Vector<" +
                      cuda_type(program().buffers[stores[i]->output].dtype) +
                      ", " + std::to_string(kernel_plan_.vector_width) + "> " +
                      vector_name(i) + ";");
  }
}

void CudaNest::store_lanes(CudaKernel& kernel,
                           const std::vector<const Stage*>& stores,
                           const std::string& condition) {
  for (std::size_t i = 0; i < stores.size(); ++i) {
    const Stage& stage = *stores[i];
    const std::string value = kernel.operand(stage.value);
    if (kernel_plan_.vector_width > 1 &&
        kernel.is_vector_access(stage.offset)) {
      kernel.out().line(vector_name(i) + ".at[l] = " + value + ";");
    } else {
      kernel.out().line(condition + program().buffers[stage.output].name + "[" +
                        kernel.index(stage.offset) + "] = " + value + ";");
    }
  }
}

void CudaNest::store_vectors(CudaKernel& kernel,
                             const std::vector<const Stage*>& stores,
                             const std::string& condition) {
  for (std::size_t i = 0; i < stores.size(); ++i) {
    const Stage& stage = *stores[i];
    if (kernel_plan_.vector_width == 1 ||
        !kernel.is_vector_access(stage.offset))
      continue;
    const bool some = kernel_plan_.shifted;
    kernel.out().line(condition + (some ? "store_masked(" : "store_vector(") +
                      program().buffers[stage.output].name + " + " +
                      kernel.index(stage.offset) + ", " + vector_name(i) +
                      (some ? ", r, " + row_end() : "") + ");");
  }
}

void CudaNest::spill_all(CudaKernel& kernel, const CudaReduction& reduction) {
  spill(kernel, reduction.stage());
  if (reduction.companion() != nullptr) spill(kernel, *reduction.companion());
}

// What a later kernel reads goes to memory.
void CudaNest::spill(CudaKernel& kernel, const Stage& stage) {
  for (const int buffer : stage.results) {
    if (!plan_.spilled.contains(buffer)) continue;
    kernel.use(buffer);
    if (kernel_plan_.outer_reduction) kernel.open_lanes();
    kernel.out().line(if_leader() + program().buffers[buffer].name + "[" +
                      kernel.index(stage.result_index[0]) +
                      "] = " + kernel.result(buffer) + ";");
    if (kernel_plan_.outer_reduction) kernel.close_lanes();
  }
}

}  // namespace weft
