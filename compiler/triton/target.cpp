// The `triton` target's entry in the list of targets.
#include "compiler/compose/compose.hpp"
#include "compiler/compose/kernel_module.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/triton/generate.hpp"

namespace weft {
namespace {

constexpr std::string_view kImports = R"py(import ctypes
import functools
import hashlib
import importlib.util
import operator
import os
import platform
import re
import tempfile

import torch

)py";

constexpr std::string_view kDirect =
    R"py(_weft_interpreted = os.environ.get("TRITON_INTERPRET") == "1"


def _weft_launches_of(made, grid, tensors):
    """What Triton made of a kernel, launched without it; or None, where that
    asks for more than the driver's ordinary launch."""
    told = made.metadata
    head = re.search(r"\.entry [^(]*\(([^)]*)\)", made.asm.get("ptx", ""))
    if head is None or told.num_ctas != 1 or any(
            getattr(told, name, 0) for name in (
                "launch_cooperative_grid", "launch_pdl", "global_scratch_size",
                "profile_scratch_size")):
        return None
    hidden = head.group(1).count(".param") - tensors  # which are null
    return _WeftLaunches(ctypes.CDLL("libcuda.so.1"), [(
        ctypes.c_void_p(made.function), [*range(tensors), *[tensors] * hidden],
        ((*grid, 1, 1)[:3], 32 * told.num_warps, told.shared))], tensors)


class _WeftDirect:
    """A Triton kernel that Triton launches the first time only: its look at
    the arguments takes longer than many a kernel."""

    def __init__(self, kernel):
        self.kernel, self.known = kernel, {}

    def __getitem__(self, grid):
        return functools.partial(self.launch, grid)

    def launch(self, grid, *tensors, **options):
        pointers = [tensor.data_ptr() for tensor in tensors]
        key = tensors[0].get_device(), grid
        known = self.known.get(key)
        aligned = not functools.reduce(operator.or_, pointers) % 16
        if known is not None and aligned:
            known(pointers)
            return
        made = self.kernel[grid](*tensors, **options)
        if aligned and key not in self.known:  # else it is another kernel
            self.known[key] = _weft_launches_of(made, grid, len(tensors))


)py";

// Triton reads a kernel's text from the file that it was defined in.
constexpr std::string_view kLoader =
    R"py(def _weft_open_triton(source, _folder=[]):
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
    if _weft_interpreted:
        return module.kernel_function
    for called in module.kernel_function.__code__.co_names:
        kernel = getattr(module, called, None)
        if isinstance(kernel, module.triton.JITFunction):
            setattr(module, called, _WeftDirect(kernel))
    return _weft_where_inputs_are(module.kernel_function)


)py";

Result<std::vector<KernelSource>> generate(const Subgraph& subgraph,
                                           const Machine& machine,
                                           int variants_max) {
  return generate_triton(subgraph, gpu_facts(machine), variants_max);
}

std::vector<std::string> no_flags() { return {}; }

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
  return std::string(kImports) + cache_source() + launch_source() +
         std::string(kDirect) + std::string(kLoader) + restride_source();
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
