"""Triton's interpreter converts to and from bfloat16 as a GPU does: by itself it
cuts off what it should round, and reads small numbers as zero."""

import functools
import importlib.util
import os


def mend():
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


def _converted(convert, values, source, target, rounding):
    import numpy as np
    import triton.language as tl

    if (source, target) == (tl.bfloat16, tl.float32):
        bits = np.ascontiguousarray(values).view(np.uint16)
        return (bits.astype(np.uint32) << 16).reshape(values.shape)
    if (source, target) != (tl.float32, tl.bfloat16):
        return convert(values, source, target, rounding)
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits + np.uint32(0x7fff) + (bits >> 16 & 1)
    return np.where(np.isnan(values), 0x7fff,
                    rounded >> 16).astype(np.uint16).reshape(values.shape)
