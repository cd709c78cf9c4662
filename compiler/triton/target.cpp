// The `triton` target's entry in the list of targets.
#include "compiler/compose/compose.hpp"
#include "compiler/compose/kernel_module.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/triton/generate.hpp"
#include "embedded/compiler/triton/python/direct.py"
#include "embedded/compiler/triton/python/imports.py"
#include "embedded/compiler/triton/python/interpreted.py"
#include "embedded/compiler/triton/python/loader.py"

namespace weft {
namespace {

Result<std::vector<KernelSource>> generate(const Subgraph& subgraph,
                                           const Machine& machine,
                                           const GenerateOptions& options) {
  return generate_triton(subgraph, gpu_facts(machine, options.choices),
                         options);
}

std::vector<std::string> build_command(const BuildTools& tools) {
  std::vector<std::string> command = {tools.python, "-m", "weft.build.triton",
                                      "kernel.py", "kernel.json"};
  if (tools.arch.empty()) {
    command.push_back("--interpret");
  } else {
    command.insert(command.end(), {"--arch", tools.arch});
  }
  return command;
}

std::string loader() {
  return std::string(embedded::compiler_triton_python_imports) +
         cache_source() + launch_source() +
         std::string(embedded::compiler_triton_python_interpreted) + "\n\n" +
         std::string(embedded::compiler_triton_python_direct) +
         std::string(embedded::compiler_triton_python_loader) +
         restride_source();
}

std::string function_source(const Graph& graph, const std::string& name,
                            std::string_view source) {
  return opened_function_source(
      graph, name, "_weft_open_triton(" + python_text_block(source) + ")");
}

}  // namespace

Target triton_target() {
  Target target;
  target.name = "triton";
  target.on_gpu = true;
  target.takes_any_size = true;
  target.can_lower = &triton_can_lower;
  target.generate = &generate;
  target.source_file = "kernel.py";
  target.built_file = "kernel.json";
  target.build_command = &build_command;
  target.loader.device_condition = "(tensor.is_cuda or _weft_interpreted)";
  static const std::string interpreted =
      std::string("import os\n\n") +
      embedded::compiler_triton_python_interpreted;
  target.loader.device_source = interpreted;
  target.loader.module_source = &loader;
  target.loader.function_source = &function_source;
  return target;
}

}  // namespace weft
