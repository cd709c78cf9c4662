"""Corrects differences between Triton's interpreter and a GPU. The interpreter truncates to
bfloat16 instead of rounding, reads small numbers as zero, and has no assertions and no
constants of bfloat16. Comparisons of scalars give numbers. With NumPy 2.4, no loop can
count to an argument."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any


def mend() -> None:
    """To be called before a kernel runs; does nothing where none is
    interpreted."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        return
    if importlib.util.find_spec("triton") is None:
        return
    from triton.runtime import interpreter

    convert = interpreter._convert_float
    if not isinstance(convert, functools.partial):
        interpreter._convert_float = functools.partial(_converted, convert)
        interpreter._patch_lang_tensor = functools.partial(_patched, interpreter._patch_lang_tensor)
        builder = interpreter.InterpreterBuilder
        builder.create_assert = lambda _, condition, message: _assert(condition, message)
        builder.get_bf16 = _bfloat16_constant
        builder.binary_op = functools.partialmethod(_operation, builder.binary_op)
        interpreter.interpreter_builder.options = interpreter.InterpreterOptions(
            debug=True, sanitize_overflow=False
        )


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """What goes wrong in a kernel, said once: of an error in a function that a
    kernel calls the interpreter makes another for each caller, which quotes
    it."""
    try:
        yield
    except Exception as error:
        innermost: BaseException = error
        while innermost.__cause__ is not None:
            innermost = innermost.__cause__
        raise innermost from None


def _patched(patch: Callable[..., Any], tensor: Any, *scope: Any) -> None:
    """Triton's own makes a number of an array of one element by int()."""
    patch(tensor, *scope)
    place = scope[0].set_attr if scope else setattr
    place(tensor, "__index__", lambda self: self.handle.data.item())


def _assert(condition: Any, message: str) -> None:
    import numpy as np

    if not np.all(getattr(condition, "data", condition)):
        raise IndexError(message)


def _operation(
    builder: Any, operation: Callable[..., Any], lhs: Any, rhs: Any, function: Callable[..., Any]
) -> Any:
    """Triton's own gives the truth of a comparison its operands' type, in which a
    scalar then fills a tile."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    if function in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
        return interpreter.TensorHandle(function(lhs.data, rhs.data), tl.int1)
    return operation(builder, lhs, rhs, function)


def _bfloat16_constant(_: object, value: float) -> Any:
    """Triton's own has no constants of bfloat16."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    bits = _converted(None, np.array([value], np.float32), tl.float32, tl.bfloat16, None)
    return interpreter.TensorHandle(bits, tl.bfloat16)


def _converted(
    convert: Callable[..., Any] | None, values: Any, source: Any, target: Any, rounding: Any
) -> Any:
    import numpy as np
    import triton.language as tl

    if (source, target) == (tl.bfloat16, tl.float32):
        bits = np.ascontiguousarray(values).view(np.uint16)
        return (bits.astype(np.uint32) << 16).reshape(values.shape)
    if (source, target) != (tl.float32, tl.bfloat16):
        assert convert is not None
        return convert(values, source, target, rounding)
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> 16 & 1)
    return np.where(np.isnan(values), 0x7FFF, rounded >> 16).astype(np.uint16).reshape(values.shape)
