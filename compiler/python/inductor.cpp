#include "compiler/python/inductor.hpp"

#include "compiler/python/target.hpp"

namespace weft {
namespace {

std::vector<std::string> compile_command(const BuildTools& tools) {
  return {tools.python,
          "-m",
          "weft.inductor.stand_alone",
          "graph.json",
          "kernel.py",
          "--device",
          tools.arch.empty() ? "cpu" : "cuda"};
}

std::vector<std::string> check_command(const BuildTools& tools) {
  return {tools.python,     "-m",         "weft.build.python_file", "kernel.py",
          "kernel.checked", "--inductors"};
}

}  // namespace

Target inductor_graph_target() {
  Target target = python_target();
  target.name = kInductorGraph;
  target.build_needs_gpu = true;
  target.source_file = "graph.json";
  target.built_file = "kernel.py";
  target.build_command = &compile_command;
  return target;
}

Target inductor_target() {
  Target target = python_target();
  target.name = kInductorTarget;
  target.build_command = &check_command;
  return target;
}

}  // namespace weft
