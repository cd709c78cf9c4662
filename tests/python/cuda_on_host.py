"""Runs generated CUDA sources on the processor, for tests (cuda_host/): the
printed text itself, whose threads are fibers. Proves indices, folds, meetings
and what is awaited; nothing about the device's compiler or its memory.
"""

import atexit
import ctypes
import functools
import itertools
import mmap
import os
import platform
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

import torch

import captured_cases

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda_host")
#: What host.hpp has instead: it is written in the device's own words.
OF_DEVICE = (
    "copy_async",
    "commit_copies",
    "wait_copies",
    "sync_cluster",
    "store_remote",
    "sync_team",
    "larger(float",
    "smaller(float",
    "load_shared",
    "prefetch_line",
    "barrier_init",
    "fence_barrier_init",
    "fence_async_proxy",
    "barrier_arrive",
    "barrier_expect_bytes",
    "barrier_wait",
    "copy_bulk",
    "store_message",
    "load_message",
    "float_of_half",
    "half_of_float",
    "hardware_exp2(",
    "hardware_exp2_whole",
    "hardware_log2",
)
SOURCES_AT_ONCE = 24


def fma_flags():
    """Of a processor that fuses only where it is told that it can."""
    if platform.machine() != "x86_64":
        return []
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return ["-mfma"] if re.search(r"^flags\b.*\bfma\b", file.read(), re.MULTILINE) else []


FLAGS = [
    "-std=c++20",
    "-O1",
    "-shared",
    "-fPIC",
    "-w",
    "-fno-gnu-unique",
    "-fvisibility-inlines-hidden",
    # As the device's compiler: products are fused into sums but where the
    # source forbids it. (At -O1 gcc does so among its expensive passes.)
    "-ffp-contract=fast",
    "-fexpensive-optimizations",
    *fma_flags(),
]
count = itertools.count()
#: What was built in this process: a GPU of another size often gets the same text.
built_before = {}


class CudaVariant:
    """The cases from `first` on, in steps of `step`: the sources from `which`
    on, at most `most`, for a GPU with so many multiprocessors, whose memory moves
    so many bytes in a nanosecond."""

    def __init__(
        self, label, which, most, multiprocessors, first=0, step=1, shared=232448, memory=4300
    ):
        self.label = label
        self.which = which
        self.most = most
        self.facts = [str(multiprocessors), "16", str(shared), str(memory)]
        self.cases = captured_cases.part(first, step)

    def generate(self, graphs, options):
        cli = captured_cases.program("cuda_codegen_cli", "WEFT_CUDA_CODEGEN")
        return captured_cases.generate(graphs, [cli, *self.facts, *options])

    def build(self, graphs, answers, folder):
        chosen = [answer["variants"][self.which :][: self.most] for answer in answers]
        sources = [one for case in chosen for one in case]
        loaded = iter(load(sources, folder))
        return [
            {one["variant"]: functools.partial(run, next(loaded), graph) for one in case}
            for graph, case in zip(graphs, chosen)
        ]


def on_host(source, told, name):
    """The source in a namespace, without what the host does itself."""
    for function in OF_DEVICE:
        source = re.sub(
            r"(template <[^\n]*>\n)?DEVICE \w+ "
            + re.escape(function)
            + r".*?(\}\n(?=\n|DEVICE|template|//)|\}\n\Z)",
            "",
            source,
            count=1,
            flags=re.DOTALL,
        )
    source = source.replace('extern "C" __global__', "__global__").replace(
        "extern __shared__ __align__(16) unsigned char memory[];",
        "unsigned char* const memory = host::dynamic_shared();",
    )
    launches = "".join(
        f'extern "C" void {name}_{one["function"]}(const host::Launch& how, '
        f"void** arguments) {{\n  host::launch({name}::{one['function']}, how, "
        "arguments);\n}\n"
        for one in told["launches"]
    )
    # The sources share a file: what one defines must not reach the next.
    undone = "".join(f"#undef {word}\n" for word in re.findall(r"^#define (\w+)", source, re.M))
    return f"namespace {name} {{\n{source}\n}}\n{launches}{undone}"


@functools.cache
def host_folder():
    """Where all sources of this process find the host's library and headers, which
    are compiled once: CudaKernels' are read 60 times."""
    made = tempfile.TemporaryDirectory(prefix="weft-host-")
    atexit.register(made.cleanup)
    texts = [os.path.join(FOLDER, name) for name in ("host.cpp", f"switch_{platform.machine()}.S")]
    subprocess.run(
        [
            "g++",
            *FLAGS,
            *filter(os.path.exists, texts),
            "-o",
            os.path.join(made.name, "libhost.so"),
            "-pthread",
        ],
        check=True,
    )
    header = os.path.join(made.name, "first.hpp")
    with open(header, "w", encoding="utf-8") as file:
        file.write('#include <cmath>\n#include "host.hpp"\nusing namespace std;\n')
    subprocess.run(["g++", *FLAGS, "-I", FOLDER, "-x", "c++-header", header], check=True)
    return made.name


def load(sources, folder):
    """For each source, as {"text", "launches"}: (library, prefix of its
    kernels' names, launches)."""
    new = list({key_of(one): one for one in sources if key_of(one) not in built_before}.values())
    batches = [new[i : i + SOURCES_AT_ONCE] for i in range(0, len(new), SOURCES_AT_ONCE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for batch, loaded in zip(
            batches, pool.map(functools.partial(build, folder, host_folder()), batches)
        ):
            built_before.update(zip(map(key_of, batch), loaded))
    return [(*built_before[key_of(one)], one["launches"]) for one in sources]


def key_of(source):
    """Sources of the same key are built into the same library."""
    launches = source["launches"]["launches"]
    return source["text"], tuple(one["function"] for one in launches)


def build(folder, host, sources):
    path = os.path.join(folder, f"batch{next(count)}")
    names = [f"source{next(count)}" for _ in sources]
    with open(path + ".cpp", "w", encoding="utf-8") as file:
        file.write('#include "first.hpp"\n')
        file.writelines(
            on_host(one["text"], one["launches"], name) for one, name in zip(sources, names)
        )
    subprocess.run(
        [
            "g++",
            *FLAGS,
            "-I",
            host,
            "-I",
            FOLDER,
            path + ".cpp",
            os.path.join(host, "libhost.so"),
            "-o",
            path + ".so",
        ],
        check=True,
    )
    library = ctypes.CDLL(path + ".so")
    return [(library, name) for name in names]


class Launch(ctypes.Structure):
    _fields_ = [
        ("blocks", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("cluster", ctypes.c_int),
        ("all", ctypes.c_bool),
        ("shared_bytes", ctypes.c_long),
    ]


class Memory:
    """So many bytes, at a multiple of 16, before a page that is not to be
    touched: what is read or written there ends the process."""

    def __init__(self, size):
        page = mmap.PAGESIZE
        whole = -(-max(size, 1) // page) * page
        self._map = mmap.mmap(-1, whole + page)
        self._keep = (ctypes.c_char * (whole + page)).from_buffer(self._map)
        start = ctypes.addressof(self._keep)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect(ctypes.c_void_p(start + whole), page, mmap.PROT_READ * 0)
        self.address = start + (whole - -(-size // 16) * 16)
        ctypes.memset(self.address, 0xFF, size)


def span(shape, stride):
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, stride))


def run(loaded, graph, inputs):
    """What the kernels leave in outputs and scratch that held NaN before."""
    library, name, told = loaded
    assertions = ctypes.c_int.in_dll(library, "host_assertions")
    places = {"null": Memory(1)}
    types = {node["name"]: node["values"][0] for node in graph["nodes"]}
    given = [n["name"] for n in graph["nodes"] if n["kind"] != "call"]
    for i, (node, tensor) in enumerate(zip(given, inputs)):
        stride = types[node]["stride"]
        size = span(tensor.shape, stride)
        places[f"in{i}"] = Memory(size * tensor.element_size())
        view = tensor_at(places[f"in{i}"], tensor.dtype, size)
        view.as_strided(tensor.shape, stride).copy_(tensor)
    outputs = []
    for i, node in enumerate(graph["outputs"]):
        kind = types[node]
        dtype = getattr(torch, kind["dtype"])
        size = span(kind["shape"], kind["stride"])
        places[f"out{i}"] = Memory(size * dtype.itemsize)
        outputs.append(
            tensor_at(places[f"out{i}"], dtype, size).as_strided(kind["shape"], kind["stride"])
        )
    for i, size in enumerate(told["scratch"]):
        places[f"s{i}"] = Memory(size)
    for one in told["launches"]:
        how = Launch(
            one["grid"][0],
            one["threads"],
            one.get("cluster", 1),
            one.get("cooperative", False),
            one.get("shared_bytes", 0),
        )
        arguments = (ctypes.c_void_p * len(one["arguments"]))(
            *(places[a].address for a in one["arguments"])
        )
        getattr(library, f"{name}_{one['function']}")(ctypes.byref(how), arguments)
    if assertions.value:
        assertions.value = 0
        raise IndexError("a kernel's assertion failed")
    return [output.clone() for output in outputs]


def tensor_at(memory, dtype, size):
    buffer = (ctypes.c_char * (size * dtype.itemsize)).from_address(memory.address)
    buffer.memory = memory  # lives as long as the tensor
    if size == 0:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(buffer, dtype=dtype, count=size)
