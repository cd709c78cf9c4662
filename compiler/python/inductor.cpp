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

std::vector<std::string> without_operators() { return {"--no-extern"}; }

std::vector<std::string> strict_check_command(const BuildTools& tools) {
  std::vector<std::string> command = check_command(tools);
  for (std::string& flag : without_operators()) {
    command.push_back(std::move(flag));
  }
  return command;
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

Target inductor_own_target() {
  Target target = python_target();
  target.name = kInductorOwn;
  target.build_flags = &without_operators;
  target.build_command = &strict_check_command;
  return target;
}

}  // namespace weft
