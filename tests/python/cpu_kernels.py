"""Builds generated CPU kernels and runs them on tensors, for tests.

All cases' kernels of one variant go into one source behind one prelude, as
starting the C++ compiler for each would take most of the time.
"""

import ctypes
import functools
import os
import subprocess

import torch

import captured_cases

ENTRY = 'extern "C" void kernel_function('


class CpuVariant:
    """One way to build the cases from `first` on, in steps of `step`; `without`
    these features of the processor."""

    def __init__(self, label, which, cores, vector_bytes, first, step, level, without=()):
        self.label = label
        self.which = which
        self.cores = cores
        self.vector_bytes = vector_bytes
        self.cases = captured_cases.part(first, step)
        self.level = level
        self.without = [f"-mno-{feature}" for feature in without]

    def generate(self, graphs, options):
        cli = captured_cases.program("cpu_codegen_cli", "WEFT_CPU_CODEGEN")
        return captured_cases.generate(
            graphs, [cli, str(self.cores), str(self.vector_bytes), "16", *options]
        )

    def build(self, graphs, answers, folder):
        flags = [self.level if flag == "-O3" else flag for flag in answers[0]["flags"]]
        flags += self.without
        chosen = [
            answer["variants"][min(self.which, len(answer["variants"]) - 1)] for answer in answers
        ]
        label = "".join(c for c in self.label if c.isalpha())
        loaded = load([one["text"] for one in chosen], flags, folder, label)
        return [
            {
                one["variant"]: functools.partial(
                    run, kernel, graph, getattr(library, "kernel_outside", None)
                )
            }
            for one, graph, (kernel, library) in zip(chosen, graphs, loaded)
        ]


def load(texts, flags, folder, label):
    """Of each text its kernel, and the library: texts with one prelude share
    two."""
    groups = {}
    for i, text in enumerate(texts):
        prelude = text.split("#include", 1)[1].split(ENTRY)[0]
        groups.setdefault((prelude, i % 2), []).append(i)
    running = [
        (build([texts[i] for i in group], flags, folder, f"{label}_{number}"), group)
        for number, group in enumerate(groups.values())
    ]
    loaded = {}
    for (process, path), group in running:
        errors = process.communicate()[1]
        if process.returncode != 0:
            raise AssertionError(errors[:20000])
        library = ctypes.CDLL(path)
        for number, i in enumerate(group):
            loaded[i] = getattr(library, f"kernel_function_{number}"), library
    return [loaded[i] for i in range(len(texts))]


def build(texts, flags, folder, name):
    """One library with kernel_function_0, kernel_function_1, … ."""
    path = os.path.join(folder, name)
    prelude = texts[0].split(ENTRY)[0]
    with open(path + ".cpp", "w", encoding="utf-8") as out:
        out.write(prelude)
        for i, text in enumerate(texts):
            body = text.split(ENTRY, 1)[1]
            out.write(ENTRY.replace("function(", f"function_{i}(") + body)
    command = ["g++", *flags, path + ".cpp", "-o", path + ".so"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True), path + ".so"


def empty_output(value):
    return torch.empty_strided(
        value["shape"], value["stride"], dtype=getattr(torch, value["dtype"])
    )


def run(function, graph, outside, inputs):
    """What the kernel leaves in outputs that held NaN (or -7) before.
    `outside` says whether it was given an index that points nowhere."""
    nodes = {node["name"]: node for node in graph["nodes"]}
    outputs = []
    for name in graph["outputs"]:
        out = empty_output(nodes[name]["values"][0])
        if out.dtype.is_floating_point:
            out.fill_(float("nan"))
        elif out.dtype != torch.bool:
            out.fill_(-7)
        outputs.append(out)
    tensors = [*inputs, *outputs]
    function(*[ctypes.c_void_p(t.data_ptr()) for t in tensors])
    if outside is not None and outside():
        raise IndexError("an index is out of range")
    return outputs
