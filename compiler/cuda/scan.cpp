// Running values along a row; the pass's other stages take them as they come.
#include "compiler/cuda/nest.hpp"

namespace weft {
void CudaNest::print_scan(CudaKernel& kernel, const Pass& pass) {
  const CudaReduction reduction(program(), *pass.scan());
  reduction.need(kernel);
  Writer& out = kernel.out();
  const std::string of = reduction.reducer();
  const std::string type = reduction.value_type();
  // Each lane's accumulator is what it has come to.
  kernel.set_result(reduction.stage().results[0],
                    reduction.accumulators() + kernel.at_lane(),
                    kernel_plan_.vector_width > 1, true);
  kernel.compute(cuda_roots(pass), true);
  // In columns a thread has the whole row, and each lane its own carry.
  reduction.declare(kernel);
  const std::string carry = "carry" + reduction.accumulators().substr(1);
  if (!kernel_plan_.outer_reduction)
    out.line(type + " " + carry + " = " + of + "::none();");
  out.line("#pragma unroll 4");
  out.open("for (int u = 0; u < " + text(steps_of(pass)) + "; ++u)");
  declare_row_index(kernel, "u");
  if (kernel_plan_.outer_reduction) {
    kernel.declare(pass.inner, "r");
    print_scan_tile(kernel, pass, reduction, "");
    out.close();
    return;
  }
  kernel.need("scan");
  const std::string width = text(kernel_plan_.vector_width);
  const auto names = kernel.names();
  out.line(type + " own = " + of + "::none();");
  const std::string inside =
      is_ragged(pass) ? "if (r < " + text(extent_of(pass.inner)) + ")" : "";
  out.open(inside);
  kernel.declare(pass.inner, "r");
  kernel.compute({reduction.stage().value}, false);
  kernel.open_lanes();
  kernel.compute_lanes({reduction.stage().value});
  out.line("own = " + of + "::of(own, " + reduction.step_value(kernel) + ");");
  out.line(reduction.accumulators() + kernel.at_lane() + " = own;");
  kernel.close_lanes();
  out.close();
  kernel.set_names(names);
  out.line(type + " all;");
  out.line("const " + type + " before = " + of + "::of(" + carry +
           ", fold_before<" + of + ", " + text(kernel_plan_.threads) +
           ">(own, all));");
  out.line(carry + " = " + of + "::of(" + carry + ", all);");
  out.open(inside);
  kernel.declare(pass.inner, "r");
  print_scan_tile(kernel, pass, reduction, of + "::of(before, ");
  out.close();
  out.close();
}

// `before`: "" where the lanes' accumulators take the values themselves, else
// how what is before the thread is put to them.
void CudaNest::print_scan_tile(CudaKernel& kernel, const Pass& pass,
                               const CudaReduction& reduction,
                               const std::string& before) {
  const auto names = kernel.names();
  Writer& out = kernel.out();
  const Stage& scan = reduction.stage();
  Pass others = pass;
  std::erase(others.stages, &scan);
  std::vector<const Stage*> stores = others.stages;
  const std::string value = reduction.accumulators() + kernel.at_lane();
  if (before.empty()) kernel.compute({scan.value}, false);
  if (kernel_plan_.vector_width > 1) kernel.compute(cuda_roots(others), false);
  declare_stores(kernel, stores);
  kernel.open_lanes();
  if (before.empty()) {
    kernel.compute_lanes({scan.value});
    reduction.step(kernel);
  } else {
    out.line(value + " = " + before + value + ");");
  }
  kernel.compute_lanes(cuda_roots(others));
  const std::string condition = ragged_ ? "if (inside) " : "";
  for (const int buffer : scan.results) {
    if (!plan_.spilled.contains(buffer)) continue;
    kernel.use(buffer);
    out.line(condition + program().buffers[buffer].name + "[" +
             kernel.index(scan.result_index[0]) +
             "] = " + kernel.result(buffer) + ";");
  }
  store_lanes(kernel, stores, condition);
  kernel.close_lanes();
  store_vectors(kernel, stores, condition);
  kernel.set_names(names);
}

}  // namespace weft
