"""A captured graph by PyTorch's own compiler, called with a list: what users
have without weft, and so what computes until kernels are verified.

What Dynamo and AOTAutograd have looked at already is handed to Inductor as it
is: torch.compile around it would check each argument of every call once more,
which took 0.3 ms for 160 parameters (2026-11-27, two cores).
"""

import contextlib
import weakref

import torch

from weft.backend import agreement, contest
from weft.backend.options import log, told
from weft.backend.tracing import traced, tracing
from weft.expect import tolerance

#: Seconds that the reference of the first call's check may take.
SECONDS_MAX = 5.0


class InductorFallback:
    """Made at the first call. Where Inductor cannot compile the graph, its code
    fails, or comes to something else than eager at that call, the graph is run as it
    is, and the piece's `fallback_reason` says so."""

    def __init__(self, piece, eager):
        self._piece = weakref.ref(piece)
        self._eager = eager
        self._compiled = None
        self._is_seen = False

    @property
    def compiled(self):
        """What computes now, and raises what it fails with."""
        return self._compiled

    def __call__(self, arguments):
        if self._compiled is None:
            self._compiled = self._compile(arguments)
        try:
            results = self._compiled(arguments)
            return results if self._is_seen else self._seen(results, arguments)
        except LaidOtherwise as error:
            log.info("Inductor did not take the graph as it is: %s", error)
            self._compiled = self._by_torch_compile(arguments)
            return self(arguments)
        except Exception as error:
            if self._compiled is self._eager:
                raise
            self._give_up(f"Inductor failed with {type(error).__name__}: {error}")
        return self._eager(arguments)

    def _give_up(self, reason):
        log.info("%s", reason)
        piece = self._piece()
        if piece is not None:
            piece.fallback_reason = reason[:1000]
        self._compiled = self._eager

    def _seen(self, results, arguments):
        """The first call's results, or eager's, where these are something else. Of
        gradients many are 0 but for rounding, so nothing is said of them."""
        self._is_seen = True
        piece = self._piece()
        if (self._compiled is self._eager or piece is None or piece.draws
                or piece.role == "backward" or contest.is_recording(arguments)):
            return results
        try:
            expected = list(self._eager(arguments))
            why = agreement.Check(
                piece.graph_module, arguments, "tf32", piece.state,
                factor=tolerance.INDUCTOR_FACTOR,
                seconds_max=SECONDS_MAX).why_not(expected, list(results))
        except Exception as error:  # no room for both, say
            log.info("Inductor's results were not compared: %s", told(error))
            return results
        if not why:
            return results
        self._give_up("Inductor's code comes to something else than eager, which "
                      f"computes instead: {why}")
        return expected

    def _compile(self, arguments):
        piece = self._piece()
        # What draws needs Inductor's own numbers, sizes its guards.
        if piece.options.mode in (None, "default") and not piece.draws \
                and not _has_sizes(arguments):
            try:
                with tracing:
                    return compiled_graph(piece.graph_module, arguments,
                                          piece.role == "inference")
            except Exception as error:
                log.info("Inductor did not take the graph as it is: %s: %s",
                         type(error).__name__, str(error)[:1000])
        return self._by_torch_compile(arguments)

    def _by_torch_compile(self, arguments):
        piece = self._piece()
        module, mode = piece.graph_module, piece.options.mode
        compiled = torch.compile(
            lambda *arguments: module(*arguments), backend="inductor",
            dynamic=None if _has_sizes(arguments) else False,
            mode=None if mode == "default" else mode)
        return lambda arguments: compiled(*arguments)


class LaidOtherwise(Exception):
    """A result lies in memory otherwise than the graph's own."""


def _has_sizes(arguments):
    return any(isinstance(one, (int, torch.SymInt)) for one in arguments)


def compiled_graph(module, arguments, is_inference):
    """A function of a list of tensors like these; its first call raises
    LaidOtherwise where results do not lie in memory as the graph's own do."""
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    # With an environment of shapes, though none is a symbol: what Inductor keeps
    # from one process to the next goes by it.
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    with torch.no_grad(), mode:
        fakes = [mode.from_tensor(one, static_shapes=True)
                 if isinstance(one, torch.Tensor) else one for one in arguments]
        graph = traced(
            module, fakes, decomposition_table=select_decomp_table())
    results = graph.graph.find_nodes(op="output")[0]
    strides = [one.meta["val"].stride() if isinstance(one, torch.fx.Node)
               and isinstance(one.meta["val"], torch.Tensor) else None
               for one in results.args[0]]
    with _tracing_in(mode):
        graph = joint_graph_passes(graph)
        results = graph.graph.find_nodes(op="output")[0]
        results.meta["user_visible_output_idxs"] = list(range(len(strides)))
        results.meta["original_output_strides"] = strides
        compiled = compile_fx_inner(graph, fakes, is_inference=is_inference)
    is_checked = False

    def call(arguments):
        nonlocal is_checked
        # Inductor empties the list that it is called with.
        found = compiled(list(arguments))
        if not is_checked:
            for one, stride in zip(found, strides, strict=True):
                if stride is not None and one.stride() != stride:
                    raise LaidOtherwise(
                        f"strides {one.stride()} instead of {stride}")
            is_checked = True
        return found

    return call


@contextlib.contextmanager
def _tracing_in(mode):
    """Inductor looks there for the mode that its inputs are fake in."""
    from torch._guards import TracingContext, tracing as under

    with under(TracingContext(mode)), torch.no_grad():
        yield
