// The `cuda` target's entry in the list of targets.
#include "compiler/compose/compose.hpp"
#include "compiler/compose/kernel_module.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/cuda/generate.hpp"
#include "compiler/cuda/launches.hpp"
#include "embedded/compiler/cuda/python/build.py"
#include "embedded/compiler/cuda/python/imports.py"
#include "embedded/compiler/cuda/python/kernels.py"

namespace weft {
namespace {

Result<std::vector<KernelSource>> generate(const Subgraph& subgraph,
                                           const Machine& machine,
                                           const GenerateOptions& options) {
  return generate_cuda(subgraph, gpu_facts(machine, options.choices), options);
}

Decision takes(const Graph& graph, const Node& call, const CutOptions&) {
  return cuda_can_lower(graph, call);
}

std::vector<std::string> build_command(const BuildTools& tools) {
  return {tools.python,    "-m",          "weft.build.cuda", "kernel.cu",
          "launches.json", "kernel.json", "--arch",          tools.arch};
}

std::string loader() {
  return std::string(embedded::compiler_cuda_python_imports) + cache_source() +
         std::string(embedded::compiler_cuda_python_build) + launch_source() +
         std::string(embedded::compiler_cuda_python_kernels) +
         restride_source();
}

// What was verified was built, and that took launches.
std::string launches_of(std::string_view source) {
  return launches_in(source).value_or("{}");
}

std::string known_by(std::string_view source) {
  return without_launches(source) + '\0' + launches_of(source);
}

std::string function_source(const Graph& graph, const std::string& name,
                            std::string_view source) {
  std::string results;
  for (const std::string& output : graph.outputs) {
    const TensorType& type = tensor_type(graph, output);
    results += "    (" + python_tuple(type.shape) + ", " +
               python_tuple(type.stride) + ", torch." +
               std::string(dtype_name(type.dtype)) + "),\n";
  }
  return opened_function_source(
      graph, name,
      "_weft_open_cuda(" + python_text_block(without_launches(source)) + ", " +
          python_text_block(launches_of(source)) + ", [\n" + results + "])");
}

}  // namespace

Target cuda_target() {
  Target target;
  target.name = "cuda";
  target.on_gpu = true;
  target.needs_gpu = true;
  target.needs_nvrtc = true;
  target.can_lower = &takes;
  target.generate = &generate;
  target.source_file = "kernel.cu";
  target.facts_file = "launches.json";
  target.facts = &launches_in;
  target.built_file = "kernel.json";
  target.build_command = &build_command;
  target.loader.device_condition = "tensor.is_cuda";
  target.loader.module_source = &loader;
  target.loader.function_source = &function_source;
  target.loader.known_by = &known_by;
  return target;
}

}  // namespace weft
