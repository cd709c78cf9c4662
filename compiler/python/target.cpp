#include "compiler/python/target.hpp"

#include "compiler/compose/compose.hpp"
#include "compiler/compose/kernel_module.hpp"
#include "compiler/compose/reference_source.hpp"
#include "embedded/compiler/python/loader.py"

namespace weft {
namespace {

Decision can_lower(const Graph&, const Node&, const CutOptions&) {
  return {false, "kernels of this target come from elsewhere"};
}

Result<std::vector<KernelSource>> generate(const Subgraph&, const Machine&,
                                           const GenerateOptions&) {
  return fail(ErrorCode::wrong_input,
              "the compiler writes no Python: choose another --target");
}

std::vector<std::string> build_command(const BuildTools& tools) {
  return {tools.python, "-m", "weft.build.python_file", "kernel.py",
          "kernel.checked"};
}

std::string loader() {
  return std::string(embedded::compiler_python_loader) + cache_source() +
         restride_source();
}

std::string function_source(const Graph& graph, const std::string& name,
                            std::string_view source) {
  std::string looks = "(";
  for (const std::string& output : graph.outputs) {
    const TensorType& type = tensor_type(graph, output);
    looks += "(" + python_tuple(type.shape) + ", " + python_tuple(type.stride) +
             "), ";
  }
  looks += ")";
  return opened_function_source(
      graph, name, "_weft_open_python(" + python_text_block(source) + ")",
      "_weft_results(", ", " + looks + ")");
}

}  // namespace

Target python_target() {
  Target target;
  target.name = kPythonTarget;
  target.on_gpu = true;
  target.is_for_runs = false;
  target.can_lower = &can_lower;
  target.generate = &generate;
  target.source_file = "kernel.py";
  target.built_file = "kernel.checked";
  target.build_command = &build_command;
  target.loader.device_condition = "tensor.device.type in (\"cpu\", \"cuda\")";
  target.loader.module_source = &loader;
  target.loader.function_source = &function_source;
  return target;
}

}  // namespace weft
