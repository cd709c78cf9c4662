// The `cuda` target's entry in the list of targets.
#include "compiler/compose/compose.hpp"
#include "compiler/compose/kernel_module.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/cuda/generate.hpp"

namespace weft {
namespace {

constexpr std::string_view kImports = R"py(import base64
import ctypes
import glob
import hashlib
import json
import os
import platform
import re
import sys
import tempfile

import torch

)py";

// The package's file has the name that the build gave it: what a run has built
// is not built again.
constexpr std::string_view kBuild = R"py(_weft_interpreted = False


def _weft_nvrtc():
    """NVIDIA's compiler, from this Python's packages or the toolkit."""
    places = [place for folder in sys.path for place in sorted(glob.glob(
        os.path.join(folder, "nvidia/*/lib/libnvrtc.so.*")), reverse=True)]
    places += ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
               "/usr/local/cuda/lib64/libnvrtc.so"]
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError:
            pass
    raise RuntimeError("weft: no NVRTC to build a kernel with: pip install "
                       "nvidia-cuda-nvrtc, or install the CUDA toolkit")


def _weft_cubin(source, arch):
    nvrtc, program = _weft_nvrtc(), ctypes.c_void_p()

    def read(what):
        size = ctypes.c_size_t()
        getattr(nvrtc, f"nvrtc{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, "nvrtc" + what)(program, text)
        return text.raw

    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(),
                             b"kernel.cu", 0, None, None)
    options = (f"--gpu-architecture={arch}", "--std=c++17",
               "--extra-device-vectorization", "-default-device")
    array = (ctypes.c_char_p * 4)(*(one.encode() for one in options))
    if nvrtc.nvrtcCompileProgram(program, 4, array):
        raise RuntimeError("weft: NVRTC failed on a kernel:\n"
                           + read("GetProgramLog").decode()[-4000:])
    return read("GetCUBIN")


def _weft_package(source, arch, _folder=[]):
    """Cubin and launches of that CUDA text, built if nobody has before."""
    if not _folder:
        _folder.append(_weft_cache())
    key = hashlib.sha256(f"{source}\0{arch}".encode()).hexdigest()[:32]
    path = os.path.join(_folder[0], key + ".json")
    if not os.path.exists(path):
        told = json.loads(re.search(r"/\* launches\n(.*?)\n\*/", source,
                                    re.DOTALL).group(1))
        cubin = base64.b64encode(_weft_cubin(source, arch)).decode()
        package = {"format": 1, "arch": arch, "scratch": told["scratch"],
                   "modules": [{"cubin": cubin}],
                   "launches": [{"module": 0, **o} for o in told["launches"]]}
        with tempfile.NamedTemporaryFile(
                "w", dir=_folder[0], delete=False) as file:
            json.dump(package, file)
        os.replace(file.name, path)  # whole or not at all, for all who race
    with open(path) as file:
        return json.load(file)


)py";

constexpr std::string_view kKernels =
    R"py(try:
    # On the current device. PyTorch's compiler allocates in this way, too: it
    # takes half the time.
    _weft_empty = torch._C._dynamo.guards._empty_strided_cuda
except AttributeError:  # another PyTorch
    def _weft_empty(shape, stride, dtype):
        return torch.empty_strided(shape, stride, dtype=dtype, device="cuda")


class _WeftKernels:
    """The kernels of one CUDA text, loaded on the current device."""

    def __init__(self, source, inputs, outputs):
        major, minor = torch.cuda.get_device_capability()
        package = _weft_package(source, f"sm_{major}{minor}")
        driver = ctypes.CDLL("libcuda.so.1")
        # All scratch memory is one allocation: each takes the host a while.
        self.scratch, self.scratch_bytes = [], 0
        for size in package["scratch"]:
            self.scratch.append(self.scratch_bytes)
            self.scratch_bytes += -(-size // 256) * 256
        names = [f"{what}{i}" for what, count in (
            ("in", inputs), ("out", outputs), ("s", len(self.scratch)))
            for i in range(count)]
        self.module, kernels = ctypes.c_void_p(), []
        cubin = base64.b64decode(package["modules"][0]["cubin"])
        _weft_check(driver.cuModuleLoadData(ctypes.byref(self.module), cubin))
        for one in package["launches"]:
            function = ctypes.c_void_p()
            _weft_check(driver.cuModuleGetFunction(
                ctypes.byref(function), self.module,
                one["function"].encode()))
            shared, cluster = one.get("shared_bytes", 0), one.get("cluster", 1)
            if shared:  # what it has by itself counts, too
                _weft_check(driver.cuFuncSetAttribute(function, 8, shared))
            if cluster > 8:
                _weft_check(driver.cuFuncSetAttribute(function, 14, 1))
            taken = [names.index(name) for name in one["arguments"]]
            kernels.append((function, taken, (
                one["grid"], one["threads"], shared, cluster,
                one.get("cooperative", False))))
        self.launch = _WeftLaunches(driver, kernels, len(names))

    def __call__(self, tensors):
        pointers = [tensor.data_ptr() for tensor in tensors]
        if self.scratch:
            scratch = _weft_empty((self.scratch_bytes,), (1,), torch.uint8)
            first = scratch.data_ptr()
            pointers += [first + offset for offset in self.scratch]
        self.launch(pointers)


def _weft_realigned(tensor):
    """A copy with the same strides, gaps and all."""
    pairs = zip(tensor.shape, tensor.stride())
    span = 1 + sum((size - 1) * stride for size, stride in pairs)
    copy = tensor.as_strided((span,), (1,)).clone()
    return copy.as_strided(tensor.shape, tensor.stride(), 0)


def _weft_open_cuda(source, results):
    """A function of tensors; `results`: shape, stride and type of each."""
    loaded = {}

    def call(*inputs):
        # Packs of elements are read at once, at multiples of 16 bytes.
        tensors = [_weft_realigned(t) if t.data_ptr() % 16 else t
                   for t in inputs]
        outputs = [_weft_empty(*result) for result in results]
        tensors += outputs
        device = inputs[0].get_device()
        if device not in loaded:
            torch.cuda.synchronize()  # the device's context is there now
            loaded[device] = _WeftKernels(source, len(inputs), len(outputs))
        loaded[device](tensors)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
    return _weft_where_inputs_are(call)


)py";

Result<std::vector<KernelSource>> generate(const Subgraph& subgraph,
                                           const Machine& machine,
                                           int variants_max) {
  return generate_cuda(subgraph, gpu_facts(machine), variants_max);
}

bool takes(const Graph& graph, const Node& call, const CutOptions&) {
  return cuda_can_lower(graph, call);
}

std::vector<std::string> no_flags() { return {}; }

std::vector<std::string> build_command(const BuildTools& tools) {
  return {tools.python,  "-m",     "weft.build.cuda", "kernel.cu",
          "kernel.json", "--arch", tools.arch};
}

std::string loader() {
  return std::string(kImports) + cache_source() + std::string(kBuild) +
         launch_source() + std::string(kKernels) + restride_source();
}

std::string function_source(const Graph& graph, const std::string& name,
                            std::string_view source) {
  const auto inputs = input_names(graph);
  const std::string call = "_weft_call_" + name;
  std::string results;
  for (const std::string& output : graph.outputs) {
    const TensorType& type = tensor_type(graph, output);
    results += "    (" + python_tuple(type.shape) + ", " +
               python_tuple(type.stride) + ", torch." +
               std::string(dtype_name(type.dtype)) + "),\n";
  }
  return call + " = _weft_open_cuda(" + python_text_block(source) + ", [\n" +
         results + "])\n\n\ndef " + name + "(" + joined_names(inputs) + "):\n" +
         restride_lines(graph, name) + "    return " + call + "(" +
         joined_names(inputs) + ")\n";
}

}  // namespace

Target cuda_target() {
  Target target;
  target.name = "cuda";
  target.on_gpu = true;
  target.needs_gpu = true;
  target.can_lower = &takes;
  target.generate = &generate;
  target.source_file = "kernel.cu";
  target.built_file = "kernel.json";
  target.build_flags = &no_flags;
  target.build_command = &build_command;
  target.device_condition = "tensor.is_cuda";
  target.loader_source = &loader;
  target.function_source = &function_source;
  return target;
}

}  // namespace weft
