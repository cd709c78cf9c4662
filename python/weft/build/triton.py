"""Builds a Triton source into a GPU kernel package, ahead of time.

    python -m weft.build.triton kernel.py kernel.json --arch sm_90
    python -m weft.build.triton kernel.py kernel.json --interpret

No GPU is needed. The source's kernel_function is run once on tensors without data. Its
launches, their arguments and their order are the package (docs/reference/gpu-package.md).
Each kernel is compiled for the architecture. With --interpret the package holds the source
itself, for Triton's interpreter. Exit code 1 and the compiler's lines on standard error:
the source is at fault.

The source defines INPUTS, a list such as [((1024,), (1,), torch.float32)] (shape, stride,
dtype), and kernel_function. That function may allocate, take views and launch. It may not
compute with PyTorch or read values. Arguments that are no tensors become constants of the
kernel, except integers in its do_not_specialize. A source for any batch has
inputs_at(batch), kernel_function(in0, …, batch) and BATCHES.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from weft.build import package_file, sketch
from weft.build.package_file import BuildError

TYPES = {
    "torch.float32": "*fp32",
    "torch.float64": "*fp64",
    "torch.float16": "*fp16",
    "torch.bfloat16": "*bf16",
    "torch.int64": "*i64",
    "torch.int32": "*i32",
    "torch.int16": "*i16",
    "torch.int8": "*i8",
    "torch.uint8": "*u8",
    "torch.bool": "*i1",
}

#: What kernel_function may ask of the framework: memory, and how it is seen.
ALLOCATIONS = ("aten.empty.", "aten.empty_strided.", "aten.empty_like.", "aten.new_empty.")
VIEWS = ("aten.view.", "aten.as_strided.", "aten.detach.", "aten.alias.")


def is_sketched() -> bool:
    return isinstance(sys.modules.get("torch"), sketch.Module)


def only_memory() -> contextlib.AbstractContextManager[Any]:
    """A mode that refuses what computes: a package holds launches and nothing
    else. The sketch knows nothing that does."""
    if is_sketched():
        return contextlib.nullcontext()
    from weft.problem.operator_trace import Mode

    class OnlyMemory(Mode):
        def on_call(
            self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            if not str(function).startswith(ALLOCATIONS + VIEWS):
                raise BuildError(
                    f"kernel_function calls {function}; a package can only "
                    "hold kernels and the memory between them"
                )
            return function(*args, **kwargs)

    return OnlyMemory()


class Recorder:
    """Takes the place of launching while kernel_function runs."""

    def __init__(self) -> None:
        self.launches: list[Any] = []

    def __enter__(self) -> Recorder:
        from triton.runtime.jit import JITFunction

        recorder = self

        def run(kernel: Any, *args: Any, grid: Any, warmup: object, **options: Any) -> None:
            del warmup
            recorder.launches.append((kernel, args, grid, options))

        self._class, self._run = JITFunction, JITFunction.run
        JITFunction.run = run
        return self

    def __exit__(self, *_: object) -> None:
        self._class.run = self._run


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("weft_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        if is_sketched():
            raise
        raise BuildError(f"{type(error).__name__}: {error}") from error
    is_for_any = hasattr(module, "inputs_at")
    for name in ("BATCHES" if is_for_any else "INPUTS", "kernel_function"):
        if not hasattr(module, name):
            raise BuildError(f"the source defines no {name}")
    return module


def record(
    module: ModuleType, looks: Iterable[Any], *batch: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """(launches, inputs, outputs) of one run on tensors without data, which look
    so. A source for any batch is told it."""
    torch = sys.modules["torch"]
    inputs = [
        torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        for shape, stride, dtype in looks
    ]
    with Recorder() as recorder, only_memory():
        result = module.kernel_function(*inputs, *batch)
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    if not recorder.launches:
        raise BuildError("kernel_function launches nothing")
    return recorder.launches, inputs, outputs


class Package:
    """The package under construction."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.modules: list[dict[str, str]] = []

    def launches_of(self, module: ModuleType, looks: Iterable[Any], *batch: int) -> dict[str, Any]:
        """One run's launches and the memory between them."""
        launches, inputs, outputs = record(module, looks, *batch)
        names = Names(inputs, outputs)
        launches = [self._launch(names, *launch) for launch in launches]
        return {"scratch": names.scratch, "launches": launches}

    def _launch(
        self, names: Names, kernel: Any, args: tuple[Any, ...], grid: Any, options: dict[str, Any]
    ) -> dict[str, Any]:
        compiled, given = compile_one(kernel, args, options, self.arch)
        grid = grid(options) if callable(grid) else grid
        if isinstance(grid, int):
            grid = (grid,)
        hidden = hidden_parameters(compiled.asm["ptx"], len(given))
        metadata = compiled.metadata
        if metadata.global_scratch_size or metadata.profile_scratch_size:
            raise BuildError(f"{metadata.name} wants memory of Triton's own")
        return {
            "module": self._module(compiled.asm["cubin"]),
            "function": metadata.name,
            "grid": [*grid, 1, 1][:3],
            "threads": 32 * metadata.num_warps,
            "shared_bytes": metadata.shared,
            "arguments": [int(one) if isinstance(one, int) else names.of(one) for one in given]
            + ["null"] * hidden,
        }

    def _module(self, cubin: bytes) -> int:
        """Which one it is: the same for what is launched again."""
        module = {"cubin": base64.b64encode(cubin).decode("ascii")}
        if module not in self.modules:
            self.modules.append(module)
        return self.modules.index(module)

    def to_json(self, told: dict[str, Any]) -> dict[str, Any]:
        return {"format": 1, "arch": self.arch, "modules": self.modules, **told}


class Names:
    """Of the tensors in one run."""

    def __init__(self, inputs: list[Any], outputs: list[Any]) -> None:
        self._names = {id(t): f"in{i}" for i, t in enumerate(inputs)}
        self._names.update({id(t): f"out{i}" for i, t in enumerate(outputs)})
        self._keep: list[Any] = []  # an id is only as good as its object's life
        self.scratch: list[int] = []

    def of(self, tensor: Any) -> str:
        if id(tensor) not in self._names:
            self._names[id(tensor)] = f"s{len(self.scratch)}"
            self.scratch.append(tensor.numel() * tensor.element_size())
            self._keep.append(tensor)
        return self._names[id(tensor)]


def hidden_parameters(ptx: str, visible: int) -> int:
    """How many pointers Triton's kernel takes besides its own arguments."""
    head = re.search(r"\.entry [^(]*\(([^)]*)\)", ptx)
    assert head is not None
    return head.group(1).count(".param") - visible


def compile_one(
    kernel: Any, args: tuple[Any, ...], options: dict[str, Any], arch: str
) -> tuple[Any, list[Any]]:
    """The compiled kernel, and which of the arguments it takes: tensors, and
    numbers that it says not to specialise. All others are constants in it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import mangle_type

    names = kernel.arg_names
    given = dict(zip(names, args))
    given.update({k: v for k, v in options.items() if k in names})
    settings = {k: v for k, v in options.items() if k not in names}
    signature, constants, attributes, taken = {}, {}, {}, []
    for place, name in enumerate(names):
        value = given[name]
        if isinstance(value, sys.modules["torch"].Tensor):
            signature[name] = TYPES[str(value.dtype)]
            attributes[(place,)] = [["tt.divisibility", 16]]
            taken.append(value)
        elif isinstance(value, int) and kernel.params[place].do_not_specialize:
            signature[name] = mangle_type(value)
            taken.append(value)
        else:
            signature[name] = "constexpr"
            constants[(place,)] = value
    target = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
    source = ASTSource(kernel, signature, constants, attributes)
    try:
        compiled = triton.compile(source, target=target, options=settings)
    except Exception as error:
        raise BuildError(innermost(error)) from error
    return compiled, taken


def innermost(error: BaseException) -> str:
    """What is wrong, said once: of an error in a called function Triton makes
    another for each caller, which quotes it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def build(path: str, arch: str) -> dict[str, Any]:
    """The package, made without torch where the source allows it."""
    return _sketched(lambda: package_of(path, arch))


def interpreted(path: str) -> dict[str, Any]:
    """The package of what Triton's interpreter runs; it must load."""
    _sketched(lambda: load(path))
    with open(path, encoding="utf-8") as file:
        return {"format": 1, "interpret": True, "source": file.read()}


def _sketched(work: Callable[..., Any]) -> Any:
    try:
        with sketch.standing_in():
            return work()
    except BuildError:
        raise
    except (sketch.Beyond, Exception):  # of the sketch's making, perhaps
        import torch  # noqa: F401

        return work()


def package_of(path: str, arch: str) -> dict[str, Any]:
    module, package = load(path), Package(arch)
    if not hasattr(module, "inputs_at"):
        return package.to_json(package.launches_of(module, module.INPUTS))
    batches = {}
    for batch in module.BATCHES:  # a number, or one for each symbol
        sizes = batch if isinstance(batch, tuple) else (batch,)
        batches[",".join(map(str, sizes))] = package.launches_of(
            module, module.inputs_at(*sizes), *sizes
        )
    return package.to_json({"batches": batches})


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="weft.build.triton")
    parser.add_argument("source")
    parser.add_argument("package")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--arch")
    how.add_argument("--interpret", action="store_true")
    options = parser.parse_args(arguments)
    if options.interpret:
        os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

    def package() -> dict[str, Any]:
        if options.interpret:
            return interpreted(options.source)
        return build(options.source, options.arch)

    return package_file.write(options.package, package)


if __name__ == "__main__":
    sys.exit(main())
