"""Errors of options, raised by torch.compile instead of by the first call.

PyTorch hands a backend its options at the first call of what it compiled. So the
constructor of its wrapper of backends also checks them, if the backend is weft's."""

import functools
import sys
from collections.abc import Callable
from typing import Any

from weft.backend.options import options_from

_FRAMES_MAX = 50


def install() -> None:
    """From now on torch.compile checks the options of weft. It may be the caller that
    is loading weft now; then its options are checked at once. ValueError names what is
    wrong. Without PyTorch's wrapper nothing is done."""
    wrapper = getattr(sys.modules.get("torch"), "_TorchCompileWrapper", None)
    if wrapper is None:
        return
    original = wrapper.__init__
    if not hasattr(original, "checks_weft_options"):
        wrapper.__init__ = _checking(original)
    under_way = _options_under_way(original)
    if under_way is not None:
        options_from(*under_way)


def _checking(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        backend = getattr(self, "compiler_fn", None)
        # An import that failed, for wrong options, has left another function.
        if (getattr(backend, "__module__", ""), getattr(backend, "__name__", "")) == (
            "weft.backend",
            "compile",
        ):
            given = getattr(self, "kwargs", {})
            options_from(given.get("options"), given.get("mode"))

    checked.checks_weft_options = True  # type: ignore[attr-defined]
    return checked


def _options_under_way(original: Callable[..., None]) -> tuple[Any, Any] | None:
    """(options, mode) of the call of torch.compile that is looking this backend up."""
    code = getattr(original, "__wrapped__", original).__code__
    frame = sys._getframe(1)
    for _ in range(_FRAMES_MAX):
        if frame.f_code is code:
            return frame.f_locals.get("options"), frame.f_locals.get("mode")
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None
