"""One region's part of a composed module whose graph has several independent regions. One
search for all of them starts its processes once."""

import ast
import builtins
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from weft.backend.graphs.problem_source import Source, Unsupported, source_of
from weft.backend.implementations import composed_module
from weft.backend.implementations.composed_module import Revoked, digest_of

#: Names of the functions that compute subgraphs by kernels: this, and the subgraph.
KERNEL_PREFIX, SUBGRAPH_PREFIX = "_weft_", "sg_"


class NotSliced(Exception):
    """Why a region has no part of its own in a composed module."""


class NoKernel(Exception):
    """A region's part of a composed module has no generated kernel."""


@dataclasses.dataclass(frozen=True)
class Combined:
    """A problem file of several regions. For each region: the names of its arguments
    in forward(), and which of forward()'s results are its own."""

    source: Source
    arguments: tuple[tuple[str, ...], ...]
    results: tuple[tuple[int, ...], ...]


def combined(modules: Sequence[fx.GraphModule], values: Sequence[Sequence[Any]]) -> Combined:
    """The problem file that computes all of these graphs of tensors. `values`: of each
    graph's arguments. Unsupported says why there is none."""
    graph, names, results = fx.Graph(), [], []
    counts = []
    for number, module in enumerate(modules):
        known: dict[fx.Node, fx.Node] = {}
        own: list[Any] = []
        for node in module.graph.nodes:
            if node.op == "output":
                counts.append(len(node.args[0]))
                results += [known[one] for one in node.args[0]]
                continue
            if node.op == "placeholder":
                known[node] = graph.placeholder(f"region_{number}_{len(own)}")
                own.append(known[node].name)
            else:
                known[node] = graph.node_copy(node, known.__getitem__)
            known[node].meta["val"] = node.meta["val"]
        names.append(tuple(own))
    graph.output(tuple(results))
    _sort_placeholders(graph)
    source = source_of(
        fx.GraphModule(torch.nn.Module(), graph), [one for given in values for one in given], {}
    )
    if any(kind != "computed" for kind, *_ in source.outputs):
        raise Unsupported("a region's result is not computed in it")
    places, begin = [], 0
    for count in counts:
        places.append(tuple(output[1] for output in source.outputs[begin : begin + count]))
        begin += count
    return Combined(source, tuple(names), tuple(places))


def _sort_placeholders(graph: fx.Graph) -> None:
    """Arguments come first in a graph."""
    first = next(iter(graph.nodes))
    for node in list(graph.find_nodes(op="placeholder"))[1:]:
        first.append(node)
        first = node


class RegionModule:
    """The statements of a composed module's forward() that one region needs, as a
    function of the list of the region's inputs, which are as the problem file says.
    `identity` and `text` are the whole module's; `subgraphs` are those that kernels
    compute."""

    def __init__(
        self, path: str, loaded: Any, text: str, arguments: Sequence[str], results: Sequence[int]
    ) -> None:
        self.text = text
        self._digest = digest_of(text)
        self.identity = path, self._digest
        self._slice = sliced(loaded.__dict__, text, arguments, results)
        self.subgraphs = self._slice.subgraphs
        self._run = self._slice.function()

    def __call__(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        """The region's results."""
        self.raise_if_revoked()
        if torch.is_autocast_enabled(arguments[0].device.type):
            with torch.autocast(arguments[0].device.type, enabled=False):
                return list(self._run(*arguments))
        return list(self._run(*arguments))

    def function(
        self, replaced: Mapping[str, Callable[..., Any]]
    ) -> Callable[..., Sequence[torch.Tensor]]:
        """The region's function, in which these names are other functions."""
        return self._slice.function(replaced)

    def kernel(self, subgraph: str) -> Callable[..., Any]:
        """The function that computes a subgraph by its kernel: of its input tensors; one
        tensor, or a tuple of them."""
        found: Callable[..., Any] = self._slice.names[KERNEL_PREFIX + subgraph]
        return found

    def raise_if_revoked(self) -> None:
        """Revoked, if a full verdict found the module wrong."""
        why = composed_module.why_revoked(self._digest)
        if why:
            raise Revoked(why)


@dataclasses.dataclass(frozen=True)
class Slice:
    """The statements that compute some results, as the definition of a function, the
    names that it reads, and the subgraphs that kernels compute in it."""

    definition: ast.Module
    names: dict[str, Any]
    subgraphs: frozenset[str]

    def function(
        self, replaced: Mapping[str, Callable[..., Any]] | None = None
    ) -> Callable[..., Sequence[torch.Tensor]]:
        """The function, in which the names `replaced` have these values."""
        scope = {**self.names, **(replaced or {})}
        exec(compile(self.definition, "<weft region>", "exec"), scope)
        run = scope["_weft_region"]

        def call(*given: torch.Tensor) -> Sequence[torch.Tensor]:
            with torch.no_grad():
                found: Sequence[torch.Tensor] = run(*given)
                return found

        return call


def sliced(
    names: dict[str, Any], text: str, arguments: Sequence[str], results: Sequence[int]
) -> Slice:
    """What of ModelNew.forward() gives these results of these arguments, in the namespace of
    the loaded module. NotSliced if forward() is not a sequence of assignments; NoKernel if
    the region has no kernel in it."""
    body = _statements(text)
    if not body or not isinstance(body[-1], ast.Return):
        raise NotSliced("forward() does not end with its results")
    made = body[-1].value
    if not isinstance(made, ast.Tuple) or max(results) >= len(made.elts):
        raise NotSliced("forward() gives no tuple of its results")
    wanted = ast.Tuple([made.elts[i] for i in results], ast.Load())
    needed, kept = _loaded(wanted), []
    for statement in reversed(body[:-1]):
        stored = _stored(statement)
        if stored & needed:
            kept.append(statement)
            needed |= _loaded(statement)
    subgraphs = frozenset(
        name.removeprefix(KERNEL_PREFIX)
        for name in needed
        if name.startswith(KERNEL_PREFIX + SUBGRAPH_PREFIX)
    )
    if not subgraphs:
        raise NoKernel("no generated kernel is faster in it than its operators")
    bound = set().union(*map(_stored, kept), arguments)
    unknown = {name for name in needed - bound - names.keys() if not hasattr(builtins, name)}
    if unknown:
        raise NotSliced(f"it reads {', '.join(sorted(unknown))}")
    function = ast.parse(f"def _weft_region({', '.join(arguments)}):\n    pass")
    definition = function.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body = [*reversed(kept), ast.Return(wanted)]
    return Slice(ast.fix_missing_locations(function), dict(names), subgraphs)


def _statements(text: str) -> list[ast.stmt]:
    """Those of ModelNew.forward() that compute: without its guards."""
    for kind in ast.parse(text).body:
        if not isinstance(kind, ast.ClassDef) or kind.name != "ModelNew":
            continue
        for method in kind.body:
            if isinstance(method, ast.FunctionDef) and method.name == "forward":
                return _computing(method.body, (ast.If, ast.Expr, ast.Delete))
    return []


def _computing(body: list[ast.stmt], passed: tuple[type, ...]) -> list[ast.stmt]:
    """Assignments and returns. Statements of the classes `passed` are left out:
    guards, texts, and what frees memory."""
    found: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.With):
            found += _computing(statement.body, (ast.Expr, ast.Delete))
        elif isinstance(statement, (ast.Assign, ast.Return)):
            found.append(statement)
        elif isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant):
            raise NotSliced("forward() has a statement that stores nothing")
        elif not isinstance(statement, passed):
            raise NotSliced(f"forward() has a {type(statement).__name__}")
    return found


def _stored(statement: ast.stmt) -> set[str]:
    """Names that it assigns, and those that its lambdas take."""
    return {
        one.id
        for one in ast.walk(statement)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    } | {one.arg for one in ast.walk(statement) if isinstance(one, ast.arg)}


def _loaded(statement: ast.AST) -> set[str]:
    return {
        one.id
        for one in ast.walk(statement)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
    }
