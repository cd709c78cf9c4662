"""PyTorch's tracers, in a process whose other threads call models meanwhile."""

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from weft.capture.traced_operators import kept_in_traces


class _Tracing:
    """Of torch.export and make_fx, which are not for two threads at a time, nor
    beside Dynamo: they change nn.Module meanwhile. So it is Dynamo's own lock."""

    def acquire(self, blocking: bool = True) -> Any:
        return self._lock().acquire(blocking)

    def release(self) -> None:
        self._lock().release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: Any) -> None:
        self.release()

    @functools.cache
    def _lock(self) -> Any:
        from torch._dynamo import convert_frame

        return getattr(convert_frame, "compile_lock", None) or threading.RLock()


tracing = _Tracing()


def traced(function: Any, arguments: Sequence[Any], **options: Any) -> Any:
    """The graph of make_fx, of these arguments. If `function` is a graph, its nodes'
    lines in the user's files are kept."""
    from torch.fx import GraphModule, Interpreter
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.traceback import preserve_node_meta

    if isinstance(function, GraphModule):
        function = Interpreter(function).run
    with tracing, _told_apart(), preserve_node_meta(), kept_in_traces():
        return make_fx(function, **options)(*arguments)


@contextlib.contextmanager
def _told_apart() -> Iterator[None]:
    """make_fx says in a variable of all threads that it traces. A function that
    Dynamo has compiled, called by another thread, takes that for its own and
    raises, unless PyTorch says that a compiler is at work."""
    import torch

    flag = "_is_compiling_flag"
    before = getattr(torch.compiler, flag, False)
    setattr(torch.compiler, flag, True)
    try:
        yield
    finally:
        setattr(torch.compiler, flag, before)
