// The `triton` target's entry in the list of targets.
#include "compiler/compose.hpp"
#include "compiler/kernel_module.hpp"
#include "compiler/reference_source.hpp"
#include "compiler/triton.hpp"

namespace weft {
namespace {

constexpr std::string_view kImports = R"py(import hashlib
import importlib.util
import os
import platform
import tempfile

import torch

)py";

// Triton reads a kernel's text from the file that it was defined in.
constexpr std::string_view kLoader =
    R"py(_weft_interpreted = os.environ.get("TRITON_INTERPRET") == "1"


def _weft_open_triton(source, _folder=[]):
    """kernel_function of that Triton text."""
    if not _folder:
        _folder.append(_weft_cache())
    name = "weft_" + hashlib.sha256(source.encode()).hexdigest()[:32]
    path = os.path.join(_folder[0], name + ".py")
    if not os.path.exists(path):
        with tempfile.NamedTemporaryFile(
                "w", dir=_folder[0], delete=False, encoding="utf-8") as file:
            file.write(source)
        os.replace(file.name, path)  # whole or not at all, for all who race
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel_function


)py";

Result<std::vector<KernelSource>> generate(const Subgraph& subgraph,
                                           const Machine& machine,
                                           int variants_max) {
  return generate_triton(subgraph, gpu_facts(machine), variants_max);
}

std::vector<std::string> no_flags() { return {}; }

std::vector<std::string> build_command(const BuildTools& tools) {
  std::vector<std::string> command = {tools.python, "-m",
                                      "weft_worker.triton_build", "kernel.py",
                                      "kernel.json"};
  if (tools.arch.empty()) {
    command.push_back("--interpret");
  } else {
    command.insert(command.end(), {"--arch", tools.arch});
  }
  return command;
}

std::string loader() {
  return std::string(kImports) + cache_source() + std::string(kLoader) +
         restride_source();
}

std::string function_source(const Graph& graph, const std::string& name,
                            std::string_view source) {
  const auto inputs = input_names(graph);
  const std::string call = "_weft_call_" + name;
  return call + " = _weft_open_triton(" + python_text_block(source) +
         ")\n\n\ndef " + name + "(" + joined_names(inputs) + "):\n" +
         restride_lines(graph, name) + "    return " + call + "(" +
         joined_names(inputs) + ")\n";
}

}  // namespace

Target triton_target() {
  Target target;
  target.name = "triton";
  target.on_gpu = true;
  target.can_lower = &triton_can_lower;
  target.generate = &generate;
  target.source_file = "kernel.py";
  target.built_file = "kernel.json";
  target.build_flags = &no_flags;
  target.build_command = &build_command;
  target.device_condition = "(tensor.is_cuda or _weft_interpreted)";
  target.loader_source = &loader;
  target.function_source = &function_source;
  return target;
}

}  // namespace weft
