"""Looks at a Python file that claims to hold a kernel, before anything of it runs.

    python -m weft.build.python_file kernel.py kernel.checked \
        [--inductors [--no-extern]]

Prints what the rules forbid, with its line. The verdict of a run (oracle/) decides about a
file that passes. A checked file is the source itself.
"""

from __future__ import annotations

import ast
import sys

#: No kernel that a person could read is longer.
BYTES_MAX = 256 << 10
#: Of `torch`: memory, types and how tensors are seen. All else computes.
TORCH_ALLOWED = frozenset(
    """
    Tensor Size Stream Generator device dtype layout
    empty empty_like empty_strided zeros zeros_like full full_like
    as_strided from_numpy frombuffer tensor
    no_grad inference_mode is_tensor is_grad_enabled set_grad_enabled
    get_num_threads get_default_dtype promote_types result_type
    float16 float32 float64 bfloat16 half float double int int8 int16 int32
    int64 long short uint8 bool complex64 complex128 float8_e4m3fn float8_e5m2
    strided channels_last channels_last_3d contiguous_format preserve_format
    cuda utils version backends cpu __version__ finfo iinfo ops classes library
    autograd
""".split()
)
#: Whole names that nobody needs for a kernel, and why.
FORBIDDEN = {
    "torch.compile": "compiles the reference instead of being a kernel",
    "torch.jit": "compiles the reference instead of being a kernel",
    "torch.testing": "compares, which is the checker's work",
    "torch.nn": "computes by PyTorch's operators",
    "torch.ops.aten": "calls PyTorch's operators",
    "os._exit": "ends the process",
    "sys.exit": "ends the process",
    "os.fork": "begins a process",
    "gc.get_objects": "searches memory",
    "sys._getframe": "looks at its caller",
}
BUILTINS = {"eval", "exec", "compile", "__import__", "exit", "quit"}
#: What makes a file a kernel of its own, by the name called or decorated with.
OWN_KERNELS = (
    "triton.jit",
    "load_inline",
    "cpp_extension.load",
    "CDLL",
    "RawKernel",
    "RawModule",
    "Kernel",
)

#: Operators in a file of Inductor's that see memory otherwise and compute nothing.
MEMORYS = frozenset(
    ("torch.ops.inductor._alloc_from_pool", "torch.ops.inductor._reinterpret_tensor")
)


class Refused(Exception):
    """The file breaks a rule; the text says which and where."""


class Names(ast.NodeVisitor):
    """Dotted names as they were imported: `F.relu` is `torch.nn.functional.relu`."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self.found: list[tuple[str, int, bool]] = []  # (full name, line, is called)
        self.called: set[int] = set()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            bound = alias.asname or alias.name.split(".")[0]
            self.of[bound] = alias.name if alias.asname else bound
            self.found.append((alias.name, node.lineno, False))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for one in node.names:
            name = f"{node.module or ''}.{one.name}"
            self.of[one.asname or one.name] = name
            self.found.append((name, node.lineno, False))

    def visit_Call(self, node: ast.Call) -> None:
        self.called.add(id(node.func))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.dotted(node)
        if name is None:
            self.generic_visit(node)
        else:
            self.found.append((name, node.lineno, id(node) in self.called))

    def visit_Name(self, node: ast.Name) -> None:
        name = self.of.get(node.id, node.id)
        self.found.append((name, node.lineno, id(node) in self.called))

    def dotted(self, node: ast.AST) -> str | None:
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        return ".".join([self.of.get(node.id, node.id), *reversed(parts)])


class AssignedNames(Names):
    """… and as they were assigned: with `aten = torch.ops.aten`, `aten.mm` is
    `torch.ops.aten.mm`. Inductor's extern_kernels keep their name, whatever
    they are of."""

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        value = self.dotted(node.value)
        for target in node.targets:
            if value and isinstance(target, ast.Name) and target.id != "extern_kernels":
                self.of[target.id] = value


def check(text: str) -> None:
    """Raises Refused."""
    if len(text.encode()) > BYTES_MAX:
        raise Refused(f"the file is longer than {BYTES_MAX} bytes")
    names = Names()
    names.visit(parsed(text))
    for name, line, is_called in names.found:
        reason = why_forbidden(name, is_called)
        if reason:
            raise Refused(f"line {line}: {name} {reason}")
    if not any(name.endswith(OWN_KERNELS) for name, _, _ in names.found):
        raise Refused(
            "the file has no kernel of its own: write one in Triton "
            "(@triton.jit) or in C++ or CUDA (load_inline)"
        )


def parsed(text: str) -> ast.Module:
    """Its syntax tree, which defines a kernel_function."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        raise Refused(
            f"{where}{type(error).__name__}: {getattr(error, 'msg', None) or error}"
        ) from None
    if not any(defines(node) for node in tree.body):
        raise Refused("the file defines no kernel_function at its top level")
    return tree


def check_inductors(text: str, no_extern: bool) -> None:
    """Raises Refused. Inductor's code is the framework's work, and may be long."""
    tree = parsed(text)
    if not no_extern:
        return
    names = AssignedNames()
    names.visit(tree)
    for name, line, is_called in names.found:
        operator = operator_named(name)
        if is_called and operator:
            raise Refused(
                f"line {line}: calls {operator}, and with --no-extern "
                "no kernel may call PyTorch's operators"
            )


def operator_named(name: str) -> str:
    """As the file's reader finds it; empty: it is none that computes."""
    before, is_extern, after = name.rpartition("extern_kernels.")
    if is_extern and (not before or before.endswith(".")):
        return is_extern + after
    is_operator = name.startswith("torch.ops.") and name not in MEMORYS
    return name if is_operator else ""


def defines(node: ast.AST) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name == "kernel_function"
    if isinstance(node, ast.Assign):
        return any(
            isinstance(target, ast.Name) and target.id == "kernel_function"
            for target in node.targets
        )
    return False


def why_forbidden(name: str, is_called: bool) -> str:
    for forbidden, reason in FORBIDDEN.items():
        if name == forbidden or name.startswith(forbidden + "."):
            return reason
    if is_called and name in BUILTINS:
        return "runs text that nobody has read"
    parts = name.split(".")
    if parts[0] == "torch" and len(parts) > 1 and parts[1] not in TORCH_ALLOWED:
        return "computes by PyTorch: that is the kernel's work"
    return ""


def main(arguments: list[str] | None = None) -> int:
    source, target, *flags = arguments or sys.argv[1:]
    with open(source, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        if "--inductors" in flags:
            check_inductors(text, "--no-extern" in flags)
        else:
            check(text)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
