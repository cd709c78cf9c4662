"""Builds a Triton source into a GPU kernel package, ahead of time.

    python -m weft.build.triton kernel.py kernel.json --arch sm_90
    python -m weft.build.triton kernel.py kernel.json --interpret

No GPU is needed. The source's kernel_function is run once on tensors without
data: what it launches, on what and in which order, is the package
(docs/gpu-package.md); each kernel is compiled for the architecture. With
--interpret the package holds the source itself, for Triton's interpreter.
"""

import argparse
import base64
import contextlib
import importlib.util
import json
import os
import re
import sys

from weft.build import sketch

TYPES = {
    "torch.float32": "*fp32", "torch.float64": "*fp64",
    "torch.float16": "*fp16", "torch.bfloat16": "*bf16",
    "torch.int64": "*i64", "torch.int32": "*i32", "torch.int16": "*i16",
    "torch.int8": "*i8", "torch.uint8": "*u8", "torch.bool": "*i1",
}

#: What kernel_function may ask of the framework: memory, and how it is seen.
ALLOCATIONS = ("aten.empty.", "aten.empty_strided.", "aten.empty_like.",
               "aten.new_empty.")
VIEWS = ("aten.view.", "aten.as_strided.", "aten.detach.", "aten.alias.")


class BuildError(Exception):
    """The source is at fault: for the verdict's reason."""


def is_sketched():
    return isinstance(sys.modules.get("torch"), sketch.Module)


def only_memory():
    """A mode that refuses what computes: a package holds launches and nothing
    else. The sketch knows nothing that does."""
    if is_sketched():
        return contextlib.nullcontext()
    from weft.problem.operator_trace import Mode

    class OnlyMemory(Mode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if not str(function).startswith(ALLOCATIONS + VIEWS):
                raise BuildError(
                    f"kernel_function calls {function}; a package can only "
                    "hold kernels and the memory between them")
            return function(*args, **(kwargs or {}))

    return OnlyMemory()


class Recorder:
    """Takes the place of launching while kernel_function runs."""

    def __init__(self):
        self.launches = []

    def __enter__(self):
        from triton.runtime.jit import JITFunction

        recorder = self

        def run(kernel, *args, grid, warmup, **options):
            del warmup
            recorder.launches.append((kernel, args, grid, options))

        self._class, self._run = JITFunction, JITFunction.run
        JITFunction.run = run
        return self

    def __exit__(self, *_):
        self._class.run = self._run


def load(path):
    spec = importlib.util.spec_from_file_location("weft_kernel", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        if is_sketched():
            raise
        raise BuildError(f"{type(error).__name__}: {error}") from error
    for name in ("INPUTS", "kernel_function"):
        if not hasattr(module, name):
            raise BuildError(f"the source defines no {name}")
    return module


def record(module):
    """(launches, inputs, outputs) of one run on tensors without data."""
    torch = sys.modules["torch"]
    inputs = [torch.empty_strided(shape, stride, dtype=dtype, device="meta")
              for shape, stride, dtype in module.INPUTS]
    with Recorder() as recorder, only_memory():
        result = module.kernel_function(*inputs)
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    if not recorder.launches:
        raise BuildError("kernel_function launches nothing")
    return recorder.launches, inputs, outputs


class Package:
    """The package under construction."""

    def __init__(self, arch, inputs, outputs):
        self.arch = arch
        self.names = {id(t): f"in{i}" for i, t in enumerate(inputs)}
        self.names.update({id(t): f"out{i}" for i, t in enumerate(outputs)})
        self.keep = []  # an id is only as good as its object's life
        self.scratch, self.modules, self.launches = [], [], []

    def name(self, tensor):
        if id(tensor) not in self.names:
            self.names[id(tensor)] = f"s{len(self.scratch)}"
            self.scratch.append(tensor.numel() * tensor.element_size())
            self.keep.append(tensor)
        return self.names[id(tensor)]

    def add(self, kernel, args, grid, options):
        compiled, tensors = compile_one(kernel, args, options, self.arch)
        grid = grid(options) if callable(grid) else grid
        if isinstance(grid, int):
            grid = (grid,)
        hidden = hidden_parameters(compiled.asm["ptx"], len(tensors))
        metadata = compiled.metadata
        if metadata.global_scratch_size or metadata.profile_scratch_size:
            raise BuildError(f"{metadata.name} wants memory of Triton's own")
        self.launches.append({
            "module": len(self.modules),
            "function": metadata.name,
            "grid": [*grid, 1, 1][:3],
            "threads": 32 * metadata.num_warps,
            "shared_bytes": metadata.shared,
            "arguments": [self.name(t) for t in tensors] + ["null"] * hidden,
        })
        cubin = base64.b64encode(compiled.asm["cubin"]).decode("ascii")
        self.modules.append({"cubin": cubin})

    def to_json(self):
        return {"format": 1, "arch": self.arch, "scratch": self.scratch,
                "modules": self.modules, "launches": self.launches}


def hidden_parameters(ptx, visible):
    """How many pointers Triton's kernel takes besides its own arguments."""
    head = re.search(r"\.entry [^(]*\(([^)]*)\)", ptx).group(1)
    return head.count(".param") - visible


def compile_one(kernel, args, options, arch):
    """The compiled kernel, and the tensors among its arguments."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    given = dict(zip(names, args))
    given.update({k: v for k, v in options.items() if k in names})
    settings = {k: v for k, v in options.items() if k not in names}
    signature, constants, attributes, tensors = {}, {}, {}, []
    for place, name in enumerate(names):
        value = given[name]
        if isinstance(value, sys.modules["torch"].Tensor):
            signature[name] = TYPES[str(value.dtype)]
            attributes[(place,)] = [["tt.divisibility", 16]]
            tensors.append(value)
        else:
            signature[name] = "constexpr"
            constants[(place,)] = value
    target = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
    source = ASTSource(kernel, signature, constants, attributes)
    try:
        compiled = triton.compile(source, target=target, options=settings)
    except Exception as error:
        raise BuildError(innermost(error)) from error
    return compiled, tensors


def innermost(error):
    """What is wrong, said once: of an error in a called function Triton makes
    another for each caller, which quotes it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def build(path, arch):
    """The package, made without torch where the source allows it."""
    try:
        with sketch.standing_in():
            return package_of(path, arch)
    except BuildError:
        raise
    except (sketch.Beyond, Exception):  # of the sketch's making, perhaps
        import torch  # noqa: F401

        return package_of(path, arch)


def package_of(path, arch):
    launches, inputs, outputs = record(load(path))
    package = Package(arch, inputs, outputs)
    for launch in launches:
        package.add(*launch)
    return package.to_json()


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="weft.build.triton")
    parser.add_argument("source")
    parser.add_argument("package")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--arch")
    how.add_argument("--interpret", action="store_true")
    options = parser.parse_args(arguments)
    if options.interpret:
        os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
    try:
        if options.interpret:
            load(options.source)
            with open(options.source, encoding="utf-8") as file:
                text = file.read()
            package = {"format": 1, "interpret": True, "source": text}
        else:
            package = build(options.source, options.arch)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    with open(options.package, "w", encoding="utf-8") as file:
        json.dump(package, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
