#include "compiler/compose/kernel_module.hpp"

#include "compiler/compose/compose.hpp"
#include "compiler/compose/reference_source.hpp"

namespace weft {

namespace {

constexpr std::string_view kImports = R"py(import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile

import torch  # before any kernel: they share its OpenMP threads

)py";

constexpr std::string_view kCache = R"py(def _weft_processor():
    """Names this kind of processor: a native build runs on no other."""
    facts = platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            facts += "".join(sorted({line for line in file if line.startswith(
                ("model name", "flags", "Features"))}))
    return hashlib.sha256(facts.encode()).hexdigest()[:12]


def _weft_cache():
    """The folder of built kernels, writable by nobody else."""
    if os.environ.get("WEFT_KERNEL_CACHE"):
        os.makedirs(os.environ["WEFT_KERNEL_CACHE"], exist_ok=True)
        return os.environ["WEFT_KERNEL_CACHE"]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(
        os.path.expanduser("~"), ".cache")
    parent = home
    while not os.path.exists(parent) and parent != os.path.dirname(parent):
        parent = os.path.dirname(parent)
    if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
        folder = os.path.join(home, "weft", _weft_processor())
        os.makedirs(folder, mode=0o700, exist_ok=True)
        facts = os.stat(folder)
        if facts.st_uid == os.getuid() and not facts.st_mode & 0o022 \
                and os.access(folder, os.W_OK):
            return folder
    return tempfile.mkdtemp(prefix="weft-kernels-")


)py";

constexpr std::string_view kLoader = R"py(_weft_cpu = torch.device("cpu")


def _weft_build(source, _folder=[]):
    """The library of that C++ text, built now if nobody has before."""
    if not _folder:
        _folder.append(_weft_cache())
    key = "\0".join([source, *_weft_flags])
    name = hashlib.sha256(key.encode()).hexdigest()[:32] + ".so"
    library = os.path.join(_folder[0], name)
    if not os.path.exists(library):
        compiler = shutil.which(os.environ.get("CXX") or "g++")
        if compiler is None:
            raise RuntimeError(
                "weft: no C++ compiler to build a kernel with: install g++, "
                "or set CXX to one")
        with tempfile.TemporaryDirectory(dir=_folder[0]) as scratch:
            text = os.path.join(scratch, "kernel.cpp")
            built = os.path.join(scratch, name)
            with open(text, "w", encoding="utf-8") as file:
                file.write(source)
            done = subprocess.run([compiler, *_weft_flags, text, "-o", built],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"weft: {compiler} failed on a kernel:\n"
                                   + done.stderr[-4000:])
            os.replace(built, library)  # whole or not at all, for all who race
    return ctypes.CDLL(library)


def _weft_open(source, tensors):
    """kernel_function of that C++ text, taking that many addresses."""
    function = _weft_build(source).kernel_function
    function.argtypes = [ctypes.c_void_p] * tensors
    function.restype = None
    return function


)py";

constexpr std::string_view kRestride =
    R"py(def _weft_restride(tensor, shape, stride):
    """The tensor in the layout that a kernel was made for."""
    if all(a == b or n == 1
           for n, a, b in zip(shape, tensor.stride(), stride)):
        return tensor
    moved = torch.empty_strided(shape, stride, dtype=tensor.dtype,
                                device=tensor.device)
    return moved.copy_(tensor)


)py";

// A call finds the processor's caches cold, and the device idle until its first
// kernel: what stands here is as short as it can be. All that is the same in
// each call is kept in the driver's own form.
constexpr std::string_view kLaunch =
    R"py(class _WeftAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int),
                ("value", ctypes.c_uint * 16)]


class _WeftConfig(ctypes.Structure):
    """CUlaunchConfig."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(_WeftAttribute)),
                ("count", ctypes.c_uint)]


def _weft_config(grid, threads, shared_bytes, cluster=1, cooperative=False):
    """How a kernel is launched: a grid of three numbers of blocks, of so
    many threads in a line; in clusters of blocks; as blocks that wait for each
    other."""
    attributes, count = (_WeftAttribute * 2)(), 0
    if cluster > 1:
        attributes[count].id = 4
        attributes[count].value[:3] = (cluster, 1, 1)
        count += 1
    if cooperative:
        attributes[count].id, attributes[count].value[0] = 2, 1
        count += 1
    return _WeftConfig(tuple(grid), (threads, 1, 1), shared_bytes, None,
                       attributes, count)


class _WeftLaunches:
    """Kernels that are launched one after the other, on the device that is
    current now. Of each: the driver's handle, which of so many pointers it
    takes (one more is null), and what _weft_config() is told."""

    def __init__(self, driver, kernels, pointers):
        self.driver, self.start = driver, driver.cuLaunchKernelEx
        self.kernels, self.pointers = kernels, pointers
        self.free = []
        self.device = torch._C._cuda_getDevice()
        self.context = ctypes.c_void_p()
        _weft_check(driver.cuCtxGetCurrent(ctypes.byref(self.context)))

    def __call__(self, pointers):
        # One's own: another thread may launch at the same time.
        try:
            stream, values, configs, launches = self.free.pop()
        except IndexError:
            stream, values, configs, launches = self.prepared()
        values[:self.pointers] = pointers
        current = torch._C._cuda_getCurrentRawStream(self.device)
        if stream != current:
            for config in configs:
                config.stream = current
        for launch in launches:
            code = self.start(*launch)
            if code:
                self.retry(code, launch)
        self.free.append((current, values, configs, launches))

    def retry(self, code, launch):
        if code in (201, 400):  # a thread that has no context, or another
            _weft_check(self.driver.cuCtxSetCurrent(self.context))
            code = self.start(*launch)
        _weft_check(code)

    def prepared(self):
        """The stream, room for the pointers, and what starts each kernel with
        the pointers that lie there."""
        values = (ctypes.c_void_p * (self.pointers + 1))()
        first = ctypes.addressof(values)
        configs = [_weft_config(*how) for _, _, how in self.kernels]
        launches = []
        for config, (function, taken, _) in zip(configs, self.kernels):
            places = (ctypes.c_void_p * len(taken))(
                *(first + 8 * number for number in taken))
            launches.append((ctypes.byref(config), function, places, None))
        return 0, values, configs, launches


def _weft_check(code):
    if code:
        name = ctypes.c_char_p()
        ctypes.CDLL("libcuda.so.1").cuGetErrorName(code, ctypes.byref(name))
        raise RuntimeError(
            f"weft: the CUDA driver says {(name.value or b'error').decode()} "
            f"({code}). A kernel is made for one kind of GPU: on another one, "
            "run weft there")


def _weft_where_inputs_are(function):
    """The function, called with its first tensor's device as the current one."""
    def call(*inputs):
        if inputs[0].get_device() == torch._C._cuda_getDevice():
            return function(*inputs)
        with torch.cuda.device(inputs[0].device):
            return function(*inputs)
    return call


)py";

/// Some element is seen many times (stride 0): a tensor of that layout cannot
/// be written, so one that lies otherwise cannot be brought into it.
bool overlaps(const TensorType& type) {
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (type.stride[i] == 0 && type.shape[i] > 1) return true;
  }
  return false;
}

}  // namespace

std::string cache_source() { return std::string(kCache); }

std::string launch_source() { return std::string(kLaunch); }

std::string restride_source() { return std::string(kRestride); }

std::string restride_lines(const Graph& graph, const std::string& name) {
  std::string body;
  for (const std::string& input : input_names(graph)) {
    const TensorType& type = tensor_type(graph, input);
    const std::string stride = python_tuple(type.stride);
    body += "    if " + input + ".stride() != " + stride + ":\n        ";
    if (overlaps(type)) {
      body += "raise RuntimeError(\"" + name + ": " + input +
              " must have the stride " + stride + "\")\n";
    } else {
      body += input + " = _weft_restride(" + input + ", " +
              python_tuple(type.shape) + ", " + stride + ")\n";
    }
  }
  return body;
}

std::string loader_source(const std::vector<std::string>& build_flags) {
  std::string flags;
  for (const std::string& flag : build_flags) {
    flags += "    " + python_string(flag) + ",\n";
  }
  return std::string(kImports) + "_weft_flags = [\n" + flags + "]\n\n\n" +
         cache_source() + std::string(kLoader) + restride_source();
}

std::string kernel_function_source(const Graph& graph, const std::string& name,
                                   std::string_view cpp_source) {
  const auto inputs = input_names(graph);
  std::string body = restride_lines(graph, name);
  std::vector<std::string> addresses;
  for (const std::string& input : inputs) {
    addresses.push_back(input + ".data_ptr()");
  }
  std::vector<std::string> results;
  for (const std::string& output : graph.outputs) {
    const TensorType& type = tensor_type(graph, output);
    results.push_back("y" + std::to_string(results.size()));
    body += "    " + results.back() + " = torch.empty_strided(" +
            python_tuple(type.shape) + ", " + python_tuple(type.stride) +
            ", dtype=torch." + std::string(dtype_name(type.dtype)) +
            ", device=_weft_cpu)\n";
    addresses.push_back(results.back() + ".data_ptr()");
  }
  const std::string call = "_weft_call_" + name;
  return call + " = _weft_open(" + python_text_block(cpp_source) + ", " +
         std::to_string(addresses.size()) + ")\n\n\ndef " + name + "(" +
         joined_names(inputs) + "):\n" + body + "    " + call + "(" +
         joined_names(addresses) + ")\n    return " + joined_names(results) +
         "\n";
}

std::string kernel_module_source(const Subgraph& subgraph,
                                 const ComposedKernel& kernel) {
  return "\"\"\"" + subgraph.id + ": " + subgraph.type + ", variant " +
         kernel.variant + "; made by weft.\"\"\"\n\n" +
         kernel.target->loader_source() +
         kernel.target->function_source(subgraph.graph, "kernel_function",
                                        kernel.source);
}

}  // namespace weft
