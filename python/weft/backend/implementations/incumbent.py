"""Inductor's code for a whole graph: the program's best existing implementation, which
generated kernels have to beat.

The graph is the one that torch.compile compiles. Inductor's own entry point makes it, with
its decompositions, joint passes and partition. It calls a hook instead of its inner
compiler (docs/reference/python.md)."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from weft.capture.tracer_lock import tracing
from weft.backend.options import Options, log
from weft.regions import insertion, labels

#: A compiled function of the list of its arguments, which it may empty.
Compiled = Callable[[list[Any]], Sequence[Any]]


@dataclasses.dataclass
class Request:
    """What Inductor's entry point asked its inner compiler for: enough to compile the
    graph, or a variant of it, again in another thread."""

    module: fx.GraphModule  # as it was before Inductor's passes; nobody changes it
    fakes: list[Any]
    keywords: dict[str, Any]
    settings: dict[str, Any]  # of Inductor, where they are not its defaults
    role: str  # "inference", "forward", "backward"
    #: Seconds that Inductor took to compile it.
    compile_s: float = 0.0

    @property
    def static_inputs(self) -> frozenset[int]:
        """Positions of arguments whose memory stays: parameters and buffers, and in
        a backward graph what the forward graph saved."""
        return frozenset(self.keywords.get("static_input_idxs") or ())

    def written_inputs(self) -> frozenset[int]:
        """Positions of the arguments that a call may overwrite: those that the graph
        writes to, and what a backward graph is given for good."""
        nodes = self._inputs()
        if self.role == "backward":
            # Inductor may reuse the memory of what the forward graph saved.
            return frozenset(
                i for i, node in enumerate(nodes) if isinstance(node.meta.get("val"), torch.Tensor)
            )
        return frozenset(i for i, node in enumerate(nodes) if any(map(_may_write, node.users)))

    def uses_cuda_graphs(self) -> bool:
        """Whether Inductor replays calls as CUDA graphs; known once it compiled. It launches
        calls that write to memory of their caller's."""
        return bool(self.keywords.get("cudagraphs")) and all(
            i in self.static_inputs or not any(map(_writes, node.users))
            for i, node in enumerate(self._inputs())
        )

    def _inputs(self) -> list[fx.Node]:
        return list(self.module.graph.find_nodes(op="placeholder"))

    def compiled_part(self, module: fx.GraphModule, fakes: list[Any]) -> Compiled:
        """Inductor's code for a graph of many small, independent computations, whose results
        are vectors, for fake arguments. Blocks and raises as compiled() does."""
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx_inner
        from torch._inductor.utils import BoxedBool

        settings = {**self.settings, "triton.cudagraphs": False}
        if "combo_kernels" in config.get_config_copy():
            settings["combo_kernels"] = True
        with tracing, config.patch(settings), _tracing_in(fakes), torch.no_grad():
            return compile_fx_inner(
                module, list(fakes), cudagraphs=BoxedBool(False), is_inference=True
            )

    def compiled(self, module: fx.GraphModule | None = None, cuda_graphs: bool = False) -> Compiled:
        """Inductor's code for the graph, or for a variant of it (which is consumed):
        launched, or with PyTorch's CUDA graphs. Blocks while anything else is compiled;
        raises what Inductor does."""
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx_inner
        from torch._inductor.utils import BoxedBool

        made = module or insertion.copied(self.module)[0]
        keywords = {**self.keywords, "cudagraphs": BoxedBool(cuda_graphs)}
        settings = dict(self.settings)
        if not cuda_graphs:
            settings["triton.cudagraphs"] = False
        _shorten_operator_texts()
        with tracing, config.patch(settings), _labelled(), _tracing_in(self.fakes), torch.no_grad():
            return compile_fx_inner(made, list(self.fakes), **keywords)


@functools.cache
def _shorten_operator_texts() -> None:
    """Limits a log text of Inductor to the arguments' types, in this process.

    Before torch 2.13 Inductor formats each operator that it has no lowering for, with all
    operators that compute its arguments, recursively. The text of a chain of inserted
    operators grows exponentially: seven layers of a decoder took minutes."""
    if torch.__version__ < (2, 13):  # type: ignore[operator]  # it compares with tuples
        from torch._inductor import exc

        exc.OperatorIssue.operator_str = staticmethod(  # type: ignore[method-assign]
            operator_text
        )


def operator_text(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """A call of an operator that Inductor does not know, in a few lines."""
    return "\n".join(
        [
            f"target: {target}",
            *(f"{name}: {type(one).__name__}" for name, one in [*enumerate(args), *kwargs.items()]),
        ]
    )


def _may_write(node: fx.Node) -> bool:
    return getattr(node.target, "_schema", None) is None or _writes(node)


def _writes(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def compile_graph(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    adopt: Callable[[Request, Any, Options], Compiled],
) -> Any:
    """The function that torch.compile makes of Dynamo's graph. `adopt` takes each ATen
    graph that Inductor compiles, with the code, and gives what computes its calls."""
    from torch._functorch import config as functorch_config
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def hook(module: fx.GraphModule, fakes: Sequence[Any], **keywords: Any) -> Any:
        labels.label(module)
        kept = insertion.copied(module)[0]
        role = (
            "backward"
            if keywords.get("is_backward")
            else "inference"
            if keywords.get("is_inference")
            else "forward"
        )
        request = Request(kept, list(fakes), dict(keywords), _settings(), role)
        begin = time.monotonic()
        with _labelled():
            compiled = compile_fx_inner(module, fakes, **keywords)
        request.compile_s = time.monotonic() - begin
        if not hasattr(compiled, "current_callable"):
            log.info("Inductor's code of this PyTorch cannot be exchanged")
            return compiled
        # The object stays Inductor's own, which its callers look at; what it calls is
        # exchanged.
        compiled.current_callable = adopt(request, compiled, options)
        return compiled

    patches = torch._TorchCompileInductorWrapper(options.mode, None, None).config
    # On a hit in its cache AOTAutograd would not call the hook, and the cache's key
    # does not contain it.
    with functorch_config.patch(enable_autograd_cache=False):
        return compile_fx(
            graph_module, list(example_inputs), inner_compile=hook, config_patches=dict(patches)
        )


def _settings() -> dict[str, Any]:
    """Inductor's settings in this context: from torch 2.12 on each thread has its
    own."""
    from torch._inductor import config

    found = {}
    known: Any = getattr(config, "_config", {})
    for name, value in config.get_config_copy().items():
        with contextlib.suppress(Exception):
            if not _is_equal(value, known[name].default):
                found[name] = copy.copy(value)
    return found


def _is_equal(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


@contextlib.contextmanager
def _labelled() -> Iterator[None]:
    """Inductor says of each kernel which labels its nodes had. Its cache's key does
    not know labels, so that a pass which does nothing marks what has them."""
    from torch._inductor import config, debug

    # Else the kernels of an earlier compilation would be among this one's.
    apart = getattr(debug, "reset_provenance_globals", contextlib.nullcontext)
    patches: dict[str, Any] = {}
    if "trace.provenance_tracking_level" in config.get_config_copy():
        patches["trace.provenance_tracking_level"] = 2
        if config.post_grad_custom_post_pass is None:
            patches["post_grad_custom_post_pass"] = labels.MARK
    with config.patch(patches), apart():
        yield


@contextlib.contextmanager
def _tracing_in(fakes: Sequence[Any]) -> Iterator[None]:
    """Inductor looks there for the mode that its inputs are fake in."""
    from torch._guards import TracingContext, detect_fake_mode, tracing as under

    with under(TracingContext(detect_fake_mode(list(fakes)))):
        yield


def why_not(graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> str:
    """ "" if Inductor's entry point is used for this Dynamo graph; else why its pieces
    are compiled one by one: kernels for any size are searched there."""
    for example in example_inputs:
        if isinstance(example, (int, torch.SymInt)):
            return "a size is a symbol"
        if isinstance(example, torch.Tensor) and any(
            isinstance(size, torch.SymInt) for size in example.shape
        ):
            return "a size is a symbol"
    return ""
