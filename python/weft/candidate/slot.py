"""A place where candidates run, as the oracle sees it: one zygote, one job.

Everything that comes back is treated as hostile: bounded, parsed strictly,
and believed for nothing but its arrival.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from weft.candidate import fault, gpu_package
from weft.candidate.work_clock import Worked
from weft.candidate.zygote_process import NotStarted, Starter, ZygoteProcess, start_zygote
from weft.device import shared_memory
from weft.device.trace_spans import lap
from weft.problem import sentences

if TYPE_CHECKING:
    from weft.device.arena import Arena
    from weft.device.device_arena import DeviceArena
    from weft.judge.limits import Limits
    from weft.oracle.warden_client import OutsideZygote

START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 5.0
MESSAGE_BYTES_MAX = 1 << 21
#: After so long without a word: whether the zygote can speak at all.
SUSPENDED_CHECK_S = 1.0
#: From an answer until nothing of it runs any more, as a rule at most.
FREEZE_S = 0.0005
#: So many jobs one child serves at most …
JOBS_MAX = 32
#: … of these kinds, whose code is the device's alone, or the framework's.
RESTING_KINDS = (*gpu_package.KINDS, "reference")


class CandidateFailed(Exception):
    """The job is over, and not well: `kind` is a verdict's kind. `raised`: by an
    exception of the candidate's own, no lack of memory."""

    def __init__(self, kind: str, reason: str, raised: bool = False) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.raised = raised


class SlotBroken(Exception):
    """The zygote cannot be started: the sandbox, not the candidate."""


class Slot:
    """One zygote under a sandbox prefix. Not thread-safe."""

    def __init__(
        self,
        prefix: Sequence[str],
        threads: int,
        environment: Mapping[str, str],
        precision: str = "framework",
        device: str = "cpu",
        before_launch: Callable[[], object] | None = None,
        start: Starter = start_zygote,
    ) -> None:
        """before_launch: called before each start of a zygote, which is what `start`
        does. On a device the zygote loads Triton's and torch.compile's compilers
        before it is ready: there kernels are compiled by the process that runs
        them. On the host a job that needs one loads it."""
        self.precision = precision
        self.device = device
        self.prefix = list(prefix)
        self.environment = environment
        self.threads = threads
        self._before_launch = before_launch
        self._start = start
        self._process: ZygoteProcess | OutsideZygote | None = None
        self._link: socket.socket | None = None
        self._complaints = -1
        self._arena: Arena | DeviceArena | None = None
        self._call = 0
        self._asked_at = 0.0
        self._job = 0
        self._buffer = b""
        self._is_running = False
        self._is_ending = False
        self._is_warm = False
        #: The child waits where it can be told to rest.
        self._is_well = False
        self._may_rest = False
        self._rests = 0
        self.is_private = False
        #: From the answer before the last one to the last.
        self.worked = Worked()

    def outside_sandbox(self) -> Slot:
        """Another slot with the same settings, for code that is trusted."""
        return Slot([], self.threads, self.environment, self.precision, self.device)

    def launch(self) -> None:
        """Starts the zygote if there is none, and leaves it to warm up."""
        if self._process is not None and self._process.is_alive():
            return
        self.kill()
        if self._before_launch is not None:
            self._before_launch()
        try:
            started = self._start(self.prefix, self.environment, self.device)
        except NotStarted as error:
            raise SlotBroken(str(error)) from None
        self._process = started
        self._link, self._complaints = started.link, started.complaints
        self._buffer, self._arena = b"", None
        self._is_running = self._is_ending = self._is_warm = False
        self._job = self._rests = 0

    @property
    def is_starting(self) -> bool:
        """Whether the zygote has been launched and says nothing yet."""
        return (
            self._link is not None
            and not self._is_warm
            and not select.select([self._link], [], [], 0)[0]
        )

    def start(self) -> None:
        """Starts the zygote if there is none; blocks until it is warm."""
        self.launch()
        if self._is_warm:
            return
        try:
            hello = self._receive(time.monotonic() + START_TIMEOUT_S)[1]
            self.is_private = bool(hello.get("private"))
            if not hello.get("ready"):
                raise CandidateFailed("crashed", f"said {hello}")
            self._is_warm = True
        except CandidateFailed as ended:
            why = self._last_complaint() or ended.reason
            self.kill()
            raise SlotBroken(
                f"the candidate process did not start ({why}); "
                "check that the sandbox lets it read this Python and torch"
            ) from None

    def begin(
        self, job: dict[str, Any], arena: Arena | DeviceArena, limits: Limits
    ) -> dict[str, Any]:
        """Gives a new child its job; returns what it answers once loaded."""
        with lap("zygote"):
            self.settle()
            self.start()
        if self._arena is not arena:
            assert self._link is not None  # start() has seen to it
            socket.send_fds(self._link, [b"\n"], [arena.fd])
            self._arena = arena
        self._job += 1
        order = {
            "do": "job",
            "job": self._job,
            "threads": self.threads,
            "precision": self.precision,
            "memory_bytes": limits.memory_bytes,
            "limit_address_space": limits.limit_address_space,
            **arena.described,
            **job,
        }
        self._is_running = True
        self._is_well = False
        self._may_rest = self.device != "cpu" and job["kind"] in RESTING_KINDS
        self._call = 0
        with lap("load"):
            self._send(order)
            answer = self._answer(0, limits.wall_ms)
            self._await_frozen()
        self._is_well = True
        return answer

    def call(self, wall_ms: int, **fields: Any) -> tuple[dict[str, Any], float]:
        """One call of the job; (its answer, seconds it took from outside).

        The whole tree stands still when this returns, until the next call.
        """
        self.ask(**fields)
        return self.collect(wall_ms)

    def ask(self, **fields: Any) -> None:
        """Begins a call that `collect` ends: there can be other work meanwhile,
        for others than this slot."""
        if not self._is_running:
            raise CandidateFailed("crashed", "its process is gone")
        self._call += 1
        self._is_well = False
        self._asked_at = time.perf_counter()
        self._send({"do": "call", "call": self._call, **fields})

    def collect(self, wall_ms: int) -> tuple[dict[str, Any], float]:
        """What `call` returns, of the call that `ask` began; the limit is on
        the time from here."""
        answer = self._answer(self._call, wall_ms)
        answered_at = time.perf_counter()
        self._await_frozen()
        self._is_well = True
        # What goes on until it stands still is timed, too.
        late = time.perf_counter() - answered_at - FREEZE_S
        return answer, answered_at - self._asked_at + max(0.0, late)

    def dismiss(self, keep: bool = False, more: bool = True) -> None:
        """Has the job ended and all that it left killed, without waiting.

        keep: nothing was wrong with it. A child in which only the device ran
        a candidate's code serves the next one too: to open a device anew takes
        a good part of a second, of which the driver grants one at a time.
        more: another job is likely, and its child may open the device ahead.
        """
        if not self._is_running:
            return
        self._is_running = False
        rests = keep and self._is_well and self._may_rest and self._rests < JOBS_MAX - 1
        self._rests = self._rests + 1 if rests else 0
        try:
            self._send({"do": "rest"} if rests else {"do": "end", "ahead": more})
            self._is_ending = True
        except CandidateFailed:
            self.kill()

    def settle(self) -> None:
        """Returns when no job runs: `dismiss`, and waits for it. Whatever a
        job said last is thrown away here, before the next one can be asked."""
        self.dismiss()
        if not self._is_ending:
            return
        self._is_ending = False
        until = time.monotonic() + END_TIMEOUT_S
        try:
            with lap("end"):
                while True:
                    source, message = self._receive(until)
                    if source == "Z" and "ended" in message:
                        self._hold_spoilt(message)
                        return
        except CandidateFailed:
            self.kill()

    def forget_arena(self) -> None:
        """Makes the zygote let go of the arena: its descriptor keeps memory.

        It always holds one for its next child: so it gets a tiny other one.
        """
        self.settle()
        if self._arena is None or self._link is None:
            return
        self._arena = None
        tiny = shared_memory.make(os.sysconf("SC_PAGESIZE"))
        try:
            socket.send_fds(self._link, [b"\n"], [tiny])
        except OSError:  # it is gone, and all that it held
            self.kill()
        finally:
            os.close(tiny)

    def kill(self) -> None:
        """Kills the zygote and its tree; the next job starts a new one."""
        if self._process is not None:
            self._process.kill()
        self._process, self._link, self._complaints = None, None, -1
        self._is_running = self._is_ending = False

    def _last_complaint(self) -> str:
        """Last line that the launcher or the zygote wrote to its stderr."""
        os.set_blocking(self._complaints, False)
        try:
            said = os.read(self._complaints, 1 << 16)
        except BlockingIOError:
            return ""
        lines = said.decode("utf-8", "replace").split("\n")
        return next((x.strip() for x in reversed(lines) if x.strip()), "")

    def _await_frozen(self) -> None:
        try:
            source, message = self._receive(time.monotonic() + END_TIMEOUT_S)
        except CandidateFailed as ended:
            self._lose(ended.kind, ended.reason)
        if source == "Z" and message.get("frozen"):
            self.worked = Worked(*message["worked"])
            return
        if source == "Z":
            self._raise_end(message)
        self._lose("cheated", "the candidate answered more than once")

    def _send(self, message: dict[str, Any]) -> None:
        if self._link is None:
            self._lose("crashed", "the candidate process is gone")
        try:
            self._link.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._lose("crashed", "the candidate process is gone")

    def _answer(self, number: int, wall_ms: int) -> dict[str, Any]:
        try:
            until = time.monotonic() + wall_ms / 1000
            source, message = self._receive(until)
        except CandidateFailed as ended:
            if ended.kind == "timed_out":
                self.settle()
                text = f"no answer within {wall_ms / 1000:g} s"
                raise CandidateFailed("timed_out", text) from None
            self._lose(ended.kind, ended.reason)
        if source == "Z":
            self._raise_end(message)
        if message.get("call") == number and message.get("ok") is True:
            return message
        self.settle()
        if message.get("ok") is False and message.get("call") == -1:
            # The harness shortens to 2000, and adds how much it left out.
            text = sentences.whole_lines(str(message.get("message")), 2100)
            lacks = message.get("out_of_memory") is True
            raise CandidateFailed("out_of_memory" if lacks else "crashed", text, raised=not lacks)
        raise CandidateFailed("cheated", "the candidate answered what was not asked")

    def _raise_end(self, message: dict[str, Any]) -> NoReturn:
        """The zygote says that the child is gone: as a verdict's kind."""
        self._is_running = False
        self._hold_spoilt(message)
        printed = str(message.get("printed", ""))
        where = fault.told(printed)
        printed = printed[-500:].strip()
        remark = f"; it printed: {printed}" if printed else ""
        how = message.get("ended")
        if how == "out_of_memory" or "std::bad_alloc" in printed:
            raise CandidateFailed("out_of_memory", "used more memory than allowed")
        if how == "woken":
            raise CandidateFailed("cheated", "it ran while it was stopped")
        if how == "flooded":
            raise CandidateFailed("cheated", "flooded the result channel")
        if "signal" in message:
            name = _signal_name(message["signal"])
            why = f": {where}" if where else remark
            raise CandidateFailed("crashed", f"killed by {name}{why}")
        code = message.get("code")
        raise CandidateFailed("crashed", f"left early with exit code {code}{remark}")

    def _hold_spoilt(self, message: dict[str, Any]) -> None:
        """A zygote that a job has slowed or limited would pass that on to every
        job to come."""
        if message.get("spoilt"):
            self.kill()

    def _lose(self, kind: str, reason: str) -> NoReturn:
        self.kill()
        raise CandidateFailed(kind, reason) from None

    def _receive(self, until: float) -> tuple[str, dict[str, Any]]:
        """(source, message) of the next line of this job; else CandidateFailed."""
        while True:
            source, message = self._receive_any(until)
            if source == "C" or message.get("job") == self._job:
                return source, message

    def _receive_any(self, until: float) -> tuple[str, dict[str, Any]]:
        while b"\n" not in self._buffer:
            if len(self._buffer) > MESSAGE_BYTES_MAX:
                raise CandidateFailed("cheated", "flooded the result channel")
            if self._link is None:
                raise CandidateFailed("crashed", "the candidate process is gone")
            self._await_data(self._link, until)
            try:
                data = self._link.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                raise CandidateFailed("crashed", "the candidate process is gone")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message = json.loads(line[1:])
        except (ValueError, RecursionError):
            message = None
        source = line[:1].decode("ascii", "replace")
        if source not in ("Z", "C") or not isinstance(message, dict):
            raise CandidateFailed("cheated", "the candidate answered no valid message")
        return source, message

    def _await_data(self, link: socket.socket, until: float) -> None:
        """Returns when there is something to receive; else CandidateFailed."""
        was_suspended = False
        while (left := until - time.monotonic()) > 0:
            if select.select([link], [], [], min(left, SUSPENDED_CHECK_S))[0]:
                return
            # Twice, because whoever stopped it may let it go on.
            suspended = self._process is not None and self._process.is_suspended()
            if suspended and was_suspended:
                raise CandidateFailed("crashed", "it stopped the process that serves it")
            was_suspended = suspended
        raise CandidateFailed("timed_out", "no answer in time")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
