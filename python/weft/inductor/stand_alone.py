"""Has TorchInductor compile a subgraph's reference, and writes what it made of
it as one Python file with a kernel_function of tensors, which needs PyTorch
alone.

    python -m weft.inductor.stand_alone graph.json kernel.py [--device cuda]

The code is only generated here: nothing of it is built or run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterable
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from weft.expect.reference import BadGraph, Reference, load_graph

#: Loads C++ without Inductor, whose import alone takes a second or more.
LOADER = os.path.join(os.path.dirname(__file__), "loader.py")
#: Larger ones do not belong into a text.
CONSTANT_ELEMENTS_MAX = 4096
#: What follows in Inductor's file times it.
BENCHMARK = "\ndef get_args():"
#: C++'s, of a number or a vector; Triton's.
ATOMIC_SUM = re.compile(r"\batomic_add(_vec)?\b")
#: What the file uses of Inductor beside its loader and calls of operators.
INDUCTORS_OWN = re.compile(r"\b(run_intermediate_hooks|maybe_profile|align)\(")


class CannotBeTurned(Exception):
    """What Inductor made is no file that stands alone; the text says why."""


def settings() -> contextlib.AbstractContextManager[Any]:
    """Inductor's: it rounds where eager mode does, and keeps nothing."""
    from torch._inductor import config

    return config.patch(
        {
            "force_disable_caches": True,
            "compile_threads": 1,
            "emulate_precision_casts": True,
            "eager_numerics.division_rounding": True,
            "cpp_cache_precompile_headers": False,
            # However many threads will run it.
            "cpp.dynamic_threads": True,
            # PyTorch's own kernels use the vectors that it names: no test is built.
            "cpp.vec_isa_ok": True,
        }
    )


def generate(reference: Reference) -> tuple[str, list[torch.Tensor]]:
    """(Inductor's file for that reference, the constants that its code takes
    before the inputs)."""
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.graph import GraphLowering

    made = []

    def keep(lowering: Any) -> mock.Mock:
        if lowering.constants:
            raise CannotBeTurned("its code holds constants of its own")
        if len(lowering.graph_outputs) != len(reference.outputs):
            raise CannotBeTurned("a result is a view of another")
        made.append(lowering.codegen()[0].value)
        return mock.Mock()

    function = reference.function()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        inputs = [
            torch.empty_strided(
                input_value.shape,
                input_value.stride,
                dtype=input_value.dtype,
                device=reference.device,
            )
            for input_value in reference.inputs
        ]
        graph = make_fx(function)(*inputs)
        constants = list(graph.buffers())
        with mock.patch.object(GraphLowering, "compile_to_module", keep):
            compile_fx(graph, inputs)
    if len(made) != 1:
        raise CannotBeTurned(f"its code lies in {len(made)} files")
    # Where Inductor does not know that it should not: the flag for deterministic
    # algorithms is the user's, and may be set when there are kernels.
    if ATOMIC_SUM.search(made[0]):
        raise CannotBeTurned("its code adds atomically, in another order each time")
    return made[0], constants


def stand_alone(code: str, constants: Iterable[torch.Tensor]) -> str:
    """That file with a kernel_function, and without what only Inductor needs."""
    text = code[: code.index(BENCHMARK)].rstrip()
    has_cpp_only = not re.search(r"\basync_compile\.(?!cpp_pybinding|wait)", text)
    called = set(re.findall(r"\bextern_kernels\.(\w+)", text))
    if (
        has_cpp_only
        and not INDUCTORS_OWN.search(text)
        and all(hasattr(torch, name) for name in called)
    ):
        text = with_loader(text)
    else:
        text = with_inductors_loader(text)
    told = "".join(f"    {constant_text(constant)},\n" for constant in constants)
    return (
        f"# TorchInductor's, of PyTorch {torch.__version__}.\n{text}\n\n"
        f"CONSTANTS = [\n{told}]\n\n\n"
        "def kernel_function(*inputs):\n"
        "    return call([*CONSTANTS, *inputs])\n"
    )


def with_inductors_loader(text: str) -> str:
    """In one process: others would outlive whoever loads the file."""
    begin, end = "\nasync_compile = AsyncCompile()", "\nasync_compile.wait(globals())"
    return text.replace(
        begin,
        "\nfrom torch._inductor import config as inductor_config\n"
        "one_process = inductor_config.patch(compile_threads=1)\n"
        f"one_process.__enter__(){begin}",
    ).replace(end, f"{end}\none_process.__exit__(None, None, None)")


def with_loader(text: str) -> str:
    """C++ is built by our loader, and operators are called as PyTorch's."""
    from torch._inductor.cpp_builder import CppTorchDeviceOptions
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    options = CppTorchDeviceOptions(vec_isa=pick_vec_isa(), device_type="cpu")
    flags = [
        *(f"-D{definition.strip()}" for definition in options.get_definitions()),
        *(f"-{cflag}" for cflag in options.get_cflags()),
        *" ".join(options.get_passthrough_args()).split(),
    ]
    with open(LOADER, encoding="utf-8") as file:
        loader = file.read()
    lines = [line for line in text.split("\n") if not line.startswith("from torch._inductor")]
    return "\n".join(lines).replace(
        "\nasync_compile = AsyncCompile()",
        f"\nextern_kernels = torch\n\n\n{loader}\n\nasync_compile = CppKernels("
        f"{torch.backends.cpu.get_cpu_capability()!r}, {flags!r})",
    )


def constant_text(value: torch.Tensor) -> str:
    if value.numel() > CONSTANT_ELEMENTS_MAX:
        raise CannotBeTurned(f"it reads a constant of {value.numel()} numbers")
    return (
        f"torch.tensor({value.flatten().tolist()}, dtype={value.dtype}, "
        f"device={str(value.device)!r}).reshape({tuple(value.shape)})"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="weft.inductor.stand_alone")
    parser.add_argument("graph")
    parser.add_argument("file")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(
        os.path.dirname(os.path.abspath(options.file)), "inductor-cache"
    )
    # Of one thread, Inductor would write code for one.
    torch.set_num_threads(max(2, len(os.sched_getaffinity(0))))
    try:
        reference = Reference(load_graph(options.graph), torch.device(options.device))
        with settings(), contextlib.redirect_stdout(sys.stderr):
            text = stand_alone(*generate(reference))
    except (CannotBeTurned, BadGraph) as error:
        print(f"Inductor: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # whatever the compiler may raise
        first = str(error).strip().split("\n")[0]
        print(f"Inductor: {type(error).__name__}: {first}", file=sys.stderr)
        return 1
    with open(options.file, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
