#include "compiler/triton/kernel.hpp"

#include <algorithm>

#include "compiler/compose/sized_sources.hpp"

namespace weft {

int warps_for(std::int64_t tile, int per_thread) {
  const std::int64_t warps = power_of_two(tile / (32 * per_thread));
  return static_cast<int>(std::clamp<std::int64_t>(warps, 1, 32));
}

TritonKernel::TritonKernel(const Program& program, TritonModule& module)
    : program_(program), module_(module) {
  scope_.program = &program;
  scope_.helpers = &module.helpers;
}

std::string TritonKernel::wide_type() const {
  return module_.for_sizes() ? "integer" : "tl.int64";
}

std::string TritonKernel::program_id() const {
  const std::string id = "tl.program_id(0)";
  return wide_ ? id + ".to(" + wide_type() + ")" : id;
}

void TritonKernel::line(const std::string& text) {
  body_ += std::string(4 * depth_, ' ') + text + "\n";
}

void TritonKernel::name_variables(const std::vector<LoopVar>& variables,
                                  const std::string& position, Axis axis,
                                  const std::string& mask) {
  std::int64_t stride = 1;
  for (std::size_t i = variables.size(); i-- > 0;) {
    const LoopVar v = variables[i];
    std::string name = position;
    if (variables.size() > 1) {
      name = "v" + std::to_string(v.id);
      if (renamings_ > 0) name += "_" + std::to_string(renamings_);
      std::string text = position;
      if (stride > 1) text += " // " + std::to_string(stride);
      if (i > 0) {
        text = (stride > 1 ? "(" + text + ")" : text) + " % " +
               std::to_string(v.extent);
      }
      line(name + " = " + text);
    }
    scope_.variables[v.id] = {name, axis, mask};
    stride *= v.extent;
  }
}

void TritonKernel::expect_inner(const std::vector<LoopVar>& variables) {
  for (const LoopVar& v : variables) inner_variables_.insert(v.id);
}

void TritonKernel::forget_inner() {
  std::erase_if(scope_.names,
                [&](const auto& entry) { return is_inner(entry.first); });
  inner_variables_.clear();
  ++renamings_;
}

bool TritonKernel::is_inner(ExprId id) const {
  for (const ExprId each : program_.arena.reachable({id})) {
    const Scalar& node = program_.arena[each];
    if (node.op == ScalarOp::load && inner_results_.contains(node.buffer)) {
      return true;
    }
    for (const int variable : own_variables(node)) {
      if (inner_variables_.contains(variable)) return true;
    }
  }
  return false;
}

void TritonKernel::compute(const std::vector<ExprId>& roots, bool points_only) {
  for (const ExprId id : program_.arena.reachable(roots)) {
    const Scalar& node = program_.arena[id];
    if (node.op == ScalarOp::constant || scope_.names.contains(id)) continue;
    if (node.op == ScalarOp::load) {
      if (node.index.empty()) continue;
      used_.insert(node.buffer);
    }
    if (points_only && is_inner(id)) continue;
    std::string name = "x" + std::to_string(id);
    if (renamings_ > 0 && is_inner(id)) {
      name += "_" + std::to_string(renamings_);
    }
    line(name + " = " + triton_expression(scope_, id));
    scope_.names[id] = name;
  }
}

std::string TritonKernel::mask_of(const std::vector<LoopVar>& variables) const {
  std::set<int> ids;
  for (const LoopVar& v : variables) ids.insert(v.id);
  return triton_mask(scope_.variables, ids);
}

void TritonKernel::set_result(int buffer, const std::string& text, bool inner) {
  scope_.results[buffer] = text;
  if (inner) inner_results_.insert(buffer);
}

void TritonKernel::store(int buffer, const Index& offset,
                         const std::string& value,
                         const std::string& condition) {
  used_.insert(buffer);
  std::map<int, LoopVar> found;
  offset.collect(found);
  std::set<int> variables;
  for (const auto& [id, v] : found) variables.insert(id);
  std::string mask = triton_mask(scope_.variables, variables);
  if (!condition.empty()) mask += (mask.empty() ? "" : " & ") + condition;
  // One pointer for a tile would be written once by each of its elements.
  line("tl.store(" +
       triton_address(program_.buffers[buffer].name, offset, scope_.variables) +
       (variables.empty() ? " + tl.zeros((1, 1), tl.int32)" : "") + ", " +
       value + (mask.empty() ? ")" : ", mask=" + mask + ")"));
}

void TritonKernel::finish(const Count& programs, int warps, int stages) {
  TritonLaunch launch;
  launch.kernel = "kernel" + std::to_string(module_.launches.size());
  launch.programs = programs;
  launch.warps = warps;
  launch.stages = stages;
  for (const int buffer : used_) {
    launch.tensors.push_back(program_.buffers[buffer].name);
  }
  for (const std::string& name : scratch_used_) launch.tensors.push_back(name);
  std::string parameters;
  for (const std::string& name : launch.tensors) {
    parameters += (parameters.empty() ? "" : ", ") + name;
  }
  std::string head = "@triton.jit\n", begin;
  if (module_.for_sizes()) {
    // One kernel, also for sizes that Triton would make others for.
    std::string names;
    for (const std::string_view name : module_.sizes) {
      const std::string size(name);
      names += (names.empty() ? "\"" : ", \"") + size + "\"";
      parameters += ", " + size;
      begin += "    " + size + " = tl.cast(" + size + ", integer)\n";
    }
    head = "@triton.jit(do_not_specialize=[" + names + "])\n";
    parameters += ", integer: tl.constexpr";
  }
  module_.kernels += head + "def " + launch.kernel + "(" + parameters + "):\n" +
                     begin + body_ + "\n\n";
  module_.launches.push_back(std::move(launch));
}

}  // namespace weft
