"""What objects have besides attributes (items, bytes, the state of a generator of
random numbers): as something that can be compared, and put back."""

import array
import contextlib
import itertools
import operator
import pickle
import random
import sys

import torch
from torch.utils._mode_utils import no_dispatch

MISSING = object()
_flat = itertools.chain.from_iterable


def of_numpy(name, of=""):
    """One of NumPy's classes, where the process has NumPy."""
    found = sys.modules.get("numpy" + of)
    return getattr(found, name, ()) if found else ()


def kinds_of_generators():
    return (random.Random, torch.Generator, *(
        kind for name in ("Generator", "RandomState", "BitGenerator")
        if (kind := of_numpy(name, ".random"))))


def state_of(generator):
    """As something that can be compared."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, torch.Generator):
        with _beside_tracers():
            return bytes(generator.get_state().tolist())
    owner = getattr(generator, "bit_generator", generator)
    if hasattr(generator, "get_state"):
        return pickle.dumps(generator.get_state())
    return pickle.dumps(owner.state)


def set_state(generator, state):
    if state_of(generator) == state:
        return
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, torch.Generator):
        with _beside_tracers():
            generator.set_state(torch.tensor(list(state), dtype=torch.uint8))
    elif hasattr(generator, "get_state"):
        generator.set_state(pickle.loads(state))
    else:
        owner = getattr(generator, "bit_generator", generator)
        owner.state = pickle.loads(state)


@contextlib.contextmanager
def _beside_tracers():
    """Where tensors have numbers, though forward() is traced."""
    with no_dispatch(), torch._C.DisableTorchFunction():
        yield


def shared_generators():
    """Python's own, and NumPy's."""
    numpy_s = getattr(sys.modules.get("numpy.random"), "mtrand", None)
    return [random._inst, *([numpy_s._rand] if numpy_s else [])]


def generators_of_torch():
    """Those that draw where no other is named."""
    return [torch.default_generator, *(
        torch.cuda.default_generators if torch.cuda.is_initialized() else ())]


def bytes_of(buffer):
    dtype = getattr(getattr(buffer, "dtype", None), "str", "")
    shape = buffer.shape if hasattr(buffer, "shape") else len(buffer)
    return (shape, dtype), bytes(buffer) if isinstance(buffer, bytearray) else buffer.tobytes()


def put_back(owner, now, then):
    """Names of a dictionary, or attributes, to the values that they had."""
    is_dictionary = isinstance(owner, dict)
    for name in now.keys() - then.keys():
        (dict.pop if is_dictionary else delattr)(owner, name)
    for name, value in then.items():
        if now.get(name, MISSING) is not value:
            (dict.__setitem__ if is_dictionary else setattr)(owner, name, value)


def refill(container, then):
    """Puts in it what was in it, where it has something else."""
    if len(container) != len(then) or not all(map(operator.is_, _flat(
            _walked(container)), _flat(_walked(then)))):
        container.clear()
        (getattr(container, "extend", None) or container.update)(then)


def refill_bytes(buffer, then):
    if bytes_of(buffer) == then:
        return
    (shape, dtype), content = then
    if isinstance(buffer, array.array):
        del buffer[:]
        buffer.frombytes(content)
    elif isinstance(buffer, (bytearray, memoryview)):
        buffer[:] = content
    else:
        buffer[...] = sys.modules["numpy"].frombuffer(content, dtype).reshape(shape)


def _walked(container):
    return [container.keys(), container.values()] if isinstance(
        container, dict) else [container]
