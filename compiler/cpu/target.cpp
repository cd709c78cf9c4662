// The `cpu` target's entry in the list of targets.
#include "compiler/compose/kernel_module.hpp"
#include "compiler/cpu/generate.hpp"

namespace weft {
namespace {

Result<std::vector<KernelSource>> generate(const Subgraph& subgraph,
                                           const Machine& machine,
                                           const GenerateOptions& options) {
  LoopFacts facts;
  facts.cores = machine.cores;
  facts.vector_bytes = machine.vector_bytes;
  facts.l1_bytes = machine.l1_bytes;
  facts.l2_bytes = machine.l2_bytes;
  facts.choices = options.choices;
  LoweringOptions lowering;
  lowering.free_rounding = options.free_rounding;
  return generate_cpu(subgraph, facts, options.variants_max, lowering);
}

/// There is nothing that has code and is left to PyTorch even so.
Decision takes(const Graph& graph, const Node& call, const CutOptions&) {
  return can_lower(graph, call);
}

std::vector<std::string> build_command(const BuildTools& tools) {
  std::vector<std::string> command = {tools.cxx};
  for (const std::string& flag : cpu_build_flags()) command.push_back(flag);
  command.insert(command.end(), {"-o", "kernel.so", "kernel.cpp"});
  return command;
}

std::string loader() { return loader_source(cpu_build_flags()); }

}  // namespace

Target cpu_target() {
  Target target;
  target.name = "cpu";
  target.takes_any_size = true;
  target.can_lower = &takes;
  target.generate = &generate;
  target.source_file = "kernel.cpp";
  target.built_file = "kernel.so";
  target.build_flags = &cpu_build_flags;
  target.build_command = &build_command;
  target.loader.device_condition = "tensor.is_cpu";
  target.loader.module_source = &loader;
  target.loader.function_source = &kernel_function_source;
  return target;
}

}  // namespace weft
