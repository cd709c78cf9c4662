"""Kernels, graphs and modules written by hand for self_test.py."""

import base64
import ctypes
import glob
import json
import os
import shutil
import subprocess
import sys

#: Not a multiple of anything that is easy.
COUNT = (1 << 22) + 52
#: Its buffers are too large for all cases to be kept.
LARGE_COUNT = 1 << 29

_SIGNATURE = 'extern "C" __global__ void add(const float* a, const float* b, float* o)'
_PLACE = "size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;"

CUDA = {
    "honest": f"{_SIGNATURE} {{ {_PLACE} if (i < N) o[i] = a[i] + b[i]; }}",
    "wrong": f"{_SIGNATURE} {{ {_PLACE} if (i < N) o[i] = a[i] - b[i]; }}",
    "no_op": f"{_SIGNATURE} {{}}",
    "beyond": f"""{_SIGNATURE} {{ {_PLACE} if (i < N) o[i] = a[i] + b[i];
        if (i == 0) o[N] = 1; }}""",
    "writes_input": f"""{_SIGNATURE} {{ {_PLACE}
        if (i < N) o[i] = a[i] + b[i];
        if (i == 7) ((float*)a)[i] += 1; }}""",
    "stray": f"""{_SIGNATURE} {{ {_PLACE} if (i < N) o[i] = a[i] + b[i];
        if (i == 0) o[1ull << 40] = 1; }}""",
    "hangs": f"""{_SIGNATURE} {{ {_PLACE} if (i < N) o[i] = a[i] + b[i];
        volatile float* v = o; if (i == 0) while (v[0] == v[0]) {{}} }}""",
    # Right for the check, then idle: counts its calls in device memory.
    "idle_later": f"""__device__ unsigned calls;
        {_SIGNATURE} {{ {_PLACE} bool idle = calls > 40;
        if (i < N && !idle) o[i] = a[i] + b[i];
        if (i == 0) calls++; }}""",
    # By way of scratch, with more shared memory than comes unasked.
    "two_steps": """extern "C" __global__ void first(
            const float* a, const float* b, float* s) {
        extern __shared__ float kept[];
        size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
        kept[threadIdx.x + 16000] = i < N ? a[i] : 0;
        __syncthreads();
        if (i < N) s[i] = kept[threadIdx.x + 16000]; }
        extern "C" __global__ void second(
            const float* s, const float* b, float* o, void* nothing) {
        size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
        if (i < N && nothing == nullptr) o[i] = s[i] + b[i]; }""",
}

MODEL = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x)))


def get_inputs():
    return [torch.rand(16384, 2048)]


def get_init_inputs():
    return [2048]
"""

#: {name: what replaces the Model's forward()}.
MODULES = {
    "same": "return torch.relu(self.norm(self.linear(x)))",
    "no_relu": "return self.norm(self.linear(x))",
    "side_stream": """
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
        with torch.cuda.stream(self.side):
            return torch.relu(self.norm(self.linear(x)))""",
}


def module(name):
    """The text of a model_new.py."""
    text = MODEL.replace("class Model(", "class ModelNew(")
    return text.replace(MODULES["same"], MODULES[name])


def graph(count):
    """x0 + x1 of `count` elements (docs/reference/graph.md)."""
    value = {"dtype": "float32", "shape": [count], "stride": [1]}

    def node(name, kind, target, args=()):
        return {
            "name": name,
            "kind": kind,
            "target": target,
            "args": list(args),
            "kwargs": {},
            "values": [value],
            "is_tuple": False,
            "source": "",
            "elements": [],
        }

    pair = [{"node": "x0"}, {"node": "x1"}]
    return {
        "version": 1,
        "outputs": ["y"],
        "output_template": "{0}",
        "mutations": [],
        "nodes": [
            node("x0", "input", "x0"),
            node("x1", "input", "x1"),
            node("y", "call", "aten.add.Tensor", pair),
        ],
    }


def package(name, count, arch, folder):
    """The path of that kernel's package (docs/explanation/timing.md)."""
    text = f"#define N {count}ull\n{CUDA[name]}\n"
    cubin = compiled(text, arch, os.path.join(folder, f"{name}-{count}"))
    grid = [-(-count // 256), 1, 1]

    def launch(function, arguments, shared_bytes=0):
        return {
            "module": 0,
            "function": function,
            "grid": grid,
            "threads": 256,
            "shared_bytes": shared_bytes,
            "arguments": arguments,
        }

    launches = [launch("add", ["in0", "in1", "out0"])]
    if name == "two_steps":
        launches = [
            launch("first", ["in0", "in1", "s0"], 4 * 16256),
            launch("second", ["s0", "in1", "out0", "null"]),
        ]
    made = {
        "format": 1,
        "arch": arch,
        "scratch": [4 * count],
        "modules": [{"cubin": base64.b64encode(cubin).decode()}],
        "launches": launches,
    }
    path = os.path.join(folder, f"{name}-{count}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(made, file)
    return path


def compiled(text, arch, path):
    """The cubin of CUDA source, by nvcc if it is there, else by NVRTC."""
    compiler = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if compiler is None:
        return by_nvrtc(text, arch)
    with open(path + ".cu", "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run(
        [compiler, "-cubin", f"-arch={arch}", "-o", path + ".cubin", path + ".cu"], check=True
    )
    with open(path + ".cubin", "rb") as file:
        return file.read()


def by_nvrtc(text, arch):
    """The same with the compiler library that comes with PyTorch."""
    places = [
        p
        for folder in sys.path
        for p in glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*"))
    ]
    if not places:
        raise RuntimeError("neither nvcc nor NVRTC is here")
    library = ctypes.CDLL(sorted(places, key=len)[0])
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={arch}".encode())
    if library.nvrtcCompileProgram(program, 1, options) != 0:
        raise RuntimeError("NVRTC does not compile a kernel of this test")
    library.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    library.nvrtcGetCUBIN(program, cubin)
    return cubin.raw
