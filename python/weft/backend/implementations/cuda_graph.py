"""A function of tensors as a CUDA graph: recorded once, then launched whole, where
the host would take longer to launch its kernels than the device to run them.

A graph reads and writes the same memory in every replay. So what a call brings is
copied to memory of the graph's own, and its results are copied out of it: they are
the caller's, as any function's. Parameters and buffers are read where they lie;
where they lie elsewhere now, or a setting is another, the function itself computes
the call.

Many programs pass the same memory again and again: the key and value caches of a
decoder, say. A second graph reads such arguments in place, without a copy, once they
lay there in several calls in a row. Each call compares addresses, and the first graph
computes calls with other addresses. Arguments that a call writes to are never copied:
such a function is replayed only while they lie in the same place.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from weft.backend.implementations.resting_arguments import Resting, Rests, lie_at, pointers_of
from weft.backend.options import log, told

#: Calls before the recording: what is built, chosen or allocated at a first call
#: is there then.
WARM_UPS = 2
#: Of one function, where its parameters were moved again and again.
RECORDINGS_MAX = 4
#: Calls in a row with other addresses, after which the second graph is dropped.
MISSES_MAX = 16
#: A second graph that computed this number of calls was worth its recording: it does not
#: count in RECORDINGS_MAX.
CALLS_PAY = 64
#: Failed recordings of the second graph, after which nobody tries again.
FAILURES_MAX = 2


class Unrecorded(Exception):
    """Why a function's calls are not replayed."""


def recorded(
    function: Any,
    arguments: Sequence[Any],
    still: Any,
    constants: Any,
    bytes_max: Any,
    written: frozenset[int] = frozenset(),
) -> Any:
    """(a Replayed for calls with such arguments, "") or (None, why not); never
    raises. `still`: positions of arguments that lie in the same place in most
    calls; `constants`: other tensors that the function reads; `written`: positions of
    arguments that it writes to."""
    try:
        return Replayed(function, arguments, still, constants, bytes_max, written=written), ""
    except Unrecorded as error:
        return None, str(error)
    except Exception as error:  # an operator that waits for the device, say
        log.info("calls are not replayed: %s", told(error))
        return None, told(error)


class Replayed:
    """Called with the list of its arguments, as the function is."""

    def __init__(
        self,
        function: Any,
        arguments: Sequence[Any],
        still: Any,
        constants: Any,
        bytes_max: Any,
        record: Any = None,
        written: frozenset[int] = frozenset(),
    ) -> None:
        self.function = function
        #: The function that computes calls which are not replayed.
        self.otherwise = function
        #: Of a composed module, for what is told of it.
        self.identity = getattr(function, "identity", None)
        self._check = getattr(function, "raise_if_revoked", lambda: None)
        self._record = record or Recording
        self._bytes_max = bytes_max
        self._constants = list(constants)
        self._lock = threading.Lock()
        tensors = [i for i, one in enumerate(arguments) if isinstance(one, torch.Tensor)]
        self._still = [i for i in tensors if i in still]
        self.moving = [i for i in tensors if i not in still]
        self._written = written
        #: Nothing is replayed before these lie in the same place.
        self._must_rest = written.intersection(self.moving)
        self._count = 0
        self._missed: Any = None  # places of the last call that did not fit
        self._failures = 0
        self._reads_in_place = False
        #: None: no argument besides the still ones is read where it lies.
        self._rests: Rests | None = None
        self._resting: Resting | None = None
        self._begin(arguments)

    @property
    def nbytes(self) -> Any:
        """Of the device's memory, that it keeps."""
        return sum(one.nbytes for one in self._recordings())

    def kept(self) -> Any:
        """The same, by this one and all others on its device."""
        return max((one.kept() for one in self._recordings()), default=0)

    def _recordings(self) -> list[Any]:
        resting = self._resting and self._resting.recording
        return [one for one in (self._recording, resting) if one is not None]

    def read_in_place(self) -> None:
        """Lets later calls read arguments in place, if these lie in the same memory in several
        calls in a row. A trial calls it after its timing, which repeats the same arguments."""
        self._reads_in_place = True
        self._rests = Rests(self.moving)

    def __call__(self, arguments: Any) -> Any:
        self._check()
        if not self._is_watched():
            with self._lock:
                found = self._replayed(arguments)
            if found is not None:
                return found
        return self.otherwise(arguments)

    def _is_watched(self) -> Any:
        """Whether somebody looks at the operators, or records them himself."""
        return torch._C._len_torch_dispatch_stack() > 0 or self._record.is_within_another()

    def _replayed(self, arguments: Sequence[Any]) -> Any:
        """The results, by a graph; None if no graph fits the arguments, or there is no memory
        for the results."""
        if not (self._fits(arguments) or self._again(arguments)):
            return None
        try:
            return self._by_a_graph(arguments)
        except torch.OutOfMemoryError as error:
            # The memory is asked for before anything is written.
            log.info("calls are not replayed any more: %s", told(error))
            self._drop()
            self._count = RECORDINGS_MAX
            return None

    def _by_a_graph(self, arguments: Sequence[Any]) -> Any:
        """The results, by one of the two graphs; None if there is none for these
        arguments."""
        resting, rests = self._resting, self._rests
        if resting is None and rests is not None:
            found = rests.look(arguments)
            if found and self._must_rest.issubset(found):
                resting = self._resting = self._read_where_they_lie(found, arguments)
        if resting is not None:
            if resting.fits(arguments):
                return resting.recording.replay([arguments[i] for i in resting.moving])
            if resting.misses > MISSES_MAX:
                self._resting = None
                self._count -= self._must_rest != set() and resting.calls >= CALLS_PAY
                is_last = not self._must_rest or self._count >= RECORDINGS_MAX
                self._rests = None if is_last else Rests(self.moving)
        if self._recording is None:
            return None
        return self._recording.replay([arguments[i] for i in self.moving])

    def _read_where_they_lie(self, found: list[int], arguments: Sequence[Any]) -> Any:
        """A graph that reads the arguments at these positions where they lie; None if it
        cannot be recorded, or has no room."""
        self._rests = None
        moving = [i for i in self.moving if i not in found]
        try:
            _check_arguments(arguments, moving)
            recording = self._record(self.function, arguments, moving, self._written)
        except Exception as error:
            log.info("arguments are not read where they lie: %s", told(error))
            self._failures += 1
            if self._failures < FAILURES_MAX:
                self._rests = Rests(self.moving)
            return None
        if recording.kept() > self._bytes_max:
            return None
        self._count += bool(self._must_rest)
        return Resting(recording, moving, found, arguments)

    def _fits(self, arguments: Sequence[Any]) -> bool:
        """Whether all is as it was when the graph was recorded."""
        if self._at is None:
            return False
        pointers, versions, settings = self._at
        return (
            lie_at(arguments, self._still, pointers)
            and self._versions() == versions
            and _settings() == settings
        )

    def _places(self, arguments: Sequence[Any]) -> tuple[list[Any], list[Any], Any]:
        """What has to be as it was when the graph was recorded."""
        return pointers_of(arguments, self._still), self._versions(), _settings()

    def _versions(self) -> list[int]:
        return [0 if constant.is_inference() else constant._version for constant in self._constants]

    def _again(self, arguments: Any) -> bool:
        """Whether it was recorded anew: for a call that finds all as the one
        before it did."""
        if self._count >= RECORDINGS_MAX:
            return False
        places = self._places(arguments)
        is_second, self._missed = places == self._missed, places
        if not is_second:
            return False
        try:
            self._begin(arguments)
        except Exception as error:
            self._count = RECORDINGS_MAX
            log.info("calls are not replayed any more: %s", error)
            return False
        return True

    def _drop(self) -> None:
        """The graphs; their memory is free for others."""
        self._recording: Any = None
        self._at: Any = None
        self._resting = self._rests = None

    def _begin(self, arguments: Sequence[Any]) -> None:
        self._drop()
        if self._reads_in_place:
            self._rests = Rests(self.moving)
        self._count += 1
        if self._must_rest:
            self._at = self._places(arguments)
            return
        _check_arguments(arguments, self.moving)
        recording = self._record(self.function, arguments, self.moving, self._written)
        if recording.nbytes > self._bytes_max:
            raise Unrecorded(
                f"a CUDA graph would keep {recording.nbytes >> 20} MiB, and may "
                f"keep {self._bytes_max >> 20}"
            )
        self._recording, self._at = recording, self._places(arguments)


class Recording:
    """One CUDA graph of one function."""

    def __init__(
        self,
        function: Any,
        arguments: Sequence[Any],
        moving: Any,
        written: frozenset[int] = frozenset(),
    ) -> None:
        device = next(
            argument.device for argument in arguments if isinstance(argument, torch.Tensor)
        )
        with torch.inference_mode(False), torch.no_grad(), torch.cuda.device(device):
            self._place = place = _place_of(torch.cuda.current_device())
            given = list(arguments)
            self._taken = place.copies([given[i] for i in moving])
            for i, one in zip(moving, self._taken):
                given[i] = one
            # The recording itself computes nothing.
            tried = [copied(one) if i in written else one for i, one in enumerate(given)]
            for _ in range(WARM_UPS):
                function(list(tried))
            del tried
            self._graph, found, taken = place.captured(lambda: function(list(given)))
            self.nbytes = taken + sum(one.nbytes for one in self._taken)
        place.count(self.nbytes)
        weakref.finalize(self, place.count, -self.nbytes)
        self._results = list(found)
        self._tensors = [i for i, one in enumerate(found) if isinstance(one, torch.Tensor)]
        self._copies_in = _Copies(self._taken)
        self._copies_out = _Copies([self._results[i] for i in self._tensors])
        _check_results(self._results, given)

    def kept(self) -> Any:
        """Bytes, by this one and all others on its device."""
        return self._place.nbytes

    @staticmethod
    def is_within_another() -> Any:
        return torch.cuda.is_current_stream_capturing()

    def replay(self, moved: Any) -> list[Any]:
        """The results, in memory of their own."""
        with self._place.turn(), torch.no_grad():
            made = self._copies_out.room()  # before anything is written
            self._copies_in.take(moved)
            self._graph.replay()
            self._copies_out.give(made)
            found = list(self._results)
            for i, one in zip(self._tensors, made):
                found[i] = one
            return found


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, where elements do not share memory."""
    if any(n > 1 and s == 0 for n, s in zip(tensor.shape, tensor.stride())):
        return tensor.clone()
    return torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    ).copy_(tensor)


class _Copies:
    """Copies to or from the same tensors in each call. One launch copies all of a type;
    PyTorch launches a copy for each, where their types differ."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = tensors
        positions: dict[torch.dtype, list[int]] = {}
        for i, one in enumerate(tensors):
            positions.setdefault(one.dtype, []).append(i)
        self._groups = [(group, [tensors[i] for i in group]) for group in positions.values()]

    def take(self, given: Sequence[torch.Tensor]) -> None:
        """Copies these to the tensors."""
        for positions, kept in self._groups:
            torch._foreach_copy_(kept, [given[i] for i in positions])

    def room(self) -> list[torch.Tensor]:
        """Memory for copies of the tensors."""
        return [torch.empty_like(one) for one in self._tensors]

    def give(self, made: Sequence[torch.Tensor]) -> None:
        """Copies the tensors to these."""
        for positions, kept in self._groups:
            torch._foreach_copy_([made[i] for i in positions], kept)


class _Place:
    """One device, and the stream on which all is recorded.

    What a product needs besides its arguments, cuBLAS keeps for each stream that
    it is called on: a graph goes on to use what was there when it was recorded.
    Others may have all of that let go of (PyTorch's own CUDA graphs do), and then
    its memory is another's. So it is taken from memory that is never let go of, for
    a stream that nobody else has; and since all graphs share it, one replay begins
    when the last one is over."""

    def __init__(self, device: Any) -> None:
        self._stream = torch.cuda.ExternalStream(_new_stream(), device)
        self._pool = torch.cuda.graph_pool_handle()
        self._sample = torch.zeros(16, 16, device=device)
        self._kept = None  # a graph, which holds the pool
        self._device = device
        self._done = torch.cuda.Event()  # the last turn
        self._lock = threading.Lock()
        self._counting = threading.RLock()  # also within a collection of garbage
        self.nbytes = 0  # that recordings keep

    def count(self, nbytes: int) -> None:
        with self._counting:
            self.nbytes += nbytes

    def copies(self, tensors: Any) -> Any:
        """Of tensors, in memory that nothing has before what reads it there is
        over. The current stream may read them."""
        current = torch.cuda.current_stream()
        with self._lock, torch.cuda.stream(self._stream):
            self._stream.wait_event(self._done)
            self._stream.wait_stream(current)
            made = [torch.empty_like(tensor).copy_(tensor) for tensor in tensors]
            current.wait_stream(self._stream)
        return made

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """What is launched on the current stream comes after what other turns
        launched."""
        with self._lock:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(self._done)
            try:
                yield
            finally:
                self._done.record(stream)

    def captured(self, function: Any) -> tuple[Any, Any, Any]:
        """(a CUDA graph, the results that each of its replays writes, bytes that
        it took)."""
        current = torch.cuda.current_stream()
        self._product()  # cuBLAS itself is not made while a graph is recorded
        with self._lock:
            self._stream.wait_event(self._done)
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                self._stream.synchronize()
                self._keep_room()
                before = torch.cuda.memory_reserved()
                graph, found = _captured(function, torch.cuda.graph_pool_handle())
                taken = torch.cuda.memory_reserved() - before
            current.wait_stream(self._stream)
        return graph, found, max(0, taken)

    def _keep_room(self) -> None:
        """What cuBLAS has for this stream, it has from our memory."""
        try:
            self._kept = _captured(self._product, self._pool)
        except BaseException:  # with which the memory went
            self._pool, self._kept = torch.cuda.graph_pool_handle(), None
            raise

    def _product(self) -> Any:
        one = torch.mm(self._sample, self._sample)
        return torch.addmm(self._sample[0], one, self._sample)


_places: dict[Any, _Place] = {}
_places_lock = threading.Lock()


def _place_of(device: Any) -> Any:
    with _places_lock:
        if device not in _places:
            _places[device] = _Place(device)
        return _places[device]


def _new_stream() -> Any:
    """The driver's handle: PyTorch's own streams are handed out again and again."""
    driver, made = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    code = driver.cuStreamCreate(ctypes.byref(made), 1)  # waits for no other
    if code:
        raise Unrecorded(f"the CUDA driver makes no stream ({code})")
    return made.value


def _captured(function: Any, pool: Any) -> Any:
    """A graph of that function on the current stream, and its results. Other
    threads of the program go on meanwhile."""
    graph = torch.cuda.CUDAGraph()
    try:
        with _generator_aside():
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            found = function()
        finally:
            graph.capture_end()
    except BaseException:
        _leave_no_capture(graph, pool)
        raise
    return graph, found


@contextlib.contextmanager
def _generator_aside() -> Iterator[None]:
    """A recording takes the device's generator from whoever else draws meanwhile:
    it gets a copy. (It draws nothing itself.)"""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    own = generator.graphsafe_get_state()
    generator.graphsafe_set_state(generator.clone_state())
    try:
        yield
    finally:
        generator.graphsafe_set_state(own)


def _leave_no_capture(graph: Any, pool: Any) -> None:
    """After one that failed, PyTorch's allocator and generator still hold that it
    is under way: the next random number would be an error."""
    with contextlib.suppress(Exception):
        graph.pool()  # an error where the capture did not come to its end
        return  # and then the graph lets go of all that
    device = torch.cuda.current_device()
    end = getattr(torch._C, "_cuda_endAllocateToPool", None) or getattr(
        torch._C, "_cuda_endAllocateCurrentStreamToPool"
    )  # before torch 2.8
    with contextlib.suppress(Exception):  # it had come to that itself
        end(device, pool)
    version: Any = torch.__version__  # which compares with tuples
    if version < (2, 14):  # later, the graph may do so
        with contextlib.suppress(Exception):
            torch._C._cuda_releasePool(device, pool)
    other, room = torch.cuda.CUDAGraph(), torch.zeros(1, device="cuda")
    other.capture_begin(capture_error_mode="thread_local")
    room.zero_()
    other.capture_end()


def _settings() -> list[Any]:
    """By which PyTorch chooses what a recording launches."""
    return [_setting(setting) for setting in _SETTINGS]


def _setting(get: Any) -> Any:
    try:
        return get()
    except RuntimeError as error:  # it was said in the other of two ways
        return str(error)


_SETTINGS = [
    getattr(torch._C, name)
    for name in (
        "_get_cublas_allow_tf32",
        "_get_cudnn_allow_tf32",
        "_get_cudnn_enabled",
        "_get_cudnn_benchmark",
        "_get_cudnn_deterministic",
        "_get_deterministic_algorithms",
        "_get_cublas_allow_fp16_reduced_precision_reduction",
        "_get_cublas_allow_bf16_reduced_precision_reduction",
    )
    if hasattr(torch._C, name)
]
if hasattr(torch._C, "_get_fp32_precision_getter"):
    _SETTINGS += [
        functools.partial(torch._C._get_fp32_precision_getter, "cuda", operation)
        for operation in ("matmul", "conv", "rnn")
    ]


def _check_arguments(arguments: Sequence[Any], moving: Any) -> None:
    """Unrecorded, where a graph would not read what the function does."""
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    if len({tensor.device for tensor in tensors}) != 1 or not all(
        isinstance(argument, torch.Tensor) for argument in arguments
    ):
        raise Unrecorded("a CUDA graph reads tensors of one GPU alone")
    if not all(map(_lies_as_a_copy, (arguments[i] for i in moving))):
        raise Unrecorded("an argument does not lie in memory as a copy does")


def _lies_as_a_copy(one: Any) -> Any:
    return torch.empty_like(one, device="meta").stride() == one.stride()


def _check_results(results: Any, given: Any) -> None:
    """Unrecorded, where copies of the results are not what the function gives."""
    seen = {one.untyped_storage().data_ptr() for one in given}
    for result in results:
        if not isinstance(result, torch.Tensor) or result.numel() == 0:
            continue
        place = result.untyped_storage().data_ptr()
        if place in seen:
            raise Unrecorded("a result is memory of an argument's, or of another result's")
        seen.add(place)
        if not _lies_as_a_copy(result):
            raise Unrecorded("a result does not lie in memory as a copy does")
