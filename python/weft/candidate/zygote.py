"""The candidate's zygote: warm, untrusted, forks one child for each job.

It runs inside the sandbox with torch imported and talks with the oracle over the socket
that is both its standard input and its standard output. Lines from the oracle: `{"do":
"job" | "call" | "rest" | "end", …}`. A child that rests waits for another job. After an
end, the next child may be forked `ahead` of its job. Lines to the oracle: `Z{json}` is the
zygote's, `C` and a line is the child's, relayed. So a child cannot speak for the zygote.
After each answer the child is stopped until its next call.

The zygote itself never runs a tensor operation: forked after one that used threads, a child
would hang in its first parallel region.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from weft.candidate.work_clock import WorkClock
from weft.device import garbage, process, tree_removal

#: A child that says more than this at once is not answering, but flooding.
LINE_BYTES_MAX = 1 << 20
#: Of what a child prints, this much is kept: a fault's hundred calls.
PRINTED_BYTES_MAX = 16384
WATCH_INTERVAL_MS = 50
#: Where weft's sandbox shows its launcher, and nothing else has one.
SANDBOX_LAUNCHER = "/.weft-sandbox"


class Child:
    """A forked process waiting for a job or running one.

    `to_child` is a socket, because a job comes with the arena's descriptor.
    """

    def __init__(
        self, pid: int, to_child: socket.socket, from_child: int, printed: int, is_private: bool
    ) -> None:
        self.pid = pid
        self.work = WorkClock(pid, is_private)
        self.to_child = to_child
        self.from_child = from_child
        self.printed = printed
        self.buffer = b""
        self.tail = b""

    def close(self) -> None:
        self.to_child.close()
        for fd in (self.from_child, self.printed):
            if fd >= 0:
                os.close(fd)


class Zygote:
    def __init__(self, link: socket.socket, is_private: bool, device: str) -> None:
        self.link = link
        #: What a child opens while it waits for its job.
        self.device = device
        #: Everything else in this PID namespace is ours to kill.
        self.is_private = is_private
        self.arena = -1
        self.child: Child | None = None
        self.memory_bytes = 0
        #: Whether a child is forked before its job is there.
        self.forks_ahead = True
        self.is_running = False
        #: Stopped since it answered.
        self.is_frozen = False
        self.is_resting = False
        #: The job's number, in every word of ours: an end may be said twice,
        #: when the child leaves just as it is told to.
        self.job = 0
        self.inbox = b""
        self.next_watch = 0.0
        #: What every child inherits.
        self.manner = process.manner()

    def serve(self) -> None:
        self.say({"ready": True, "private": self.is_private})
        while True:
            if self.child is None and self.forks_ahead:
                self.spawn()
            self.turn()

    def say(self, message: dict[str, Any]) -> None:
        message["job"] = self.job
        self.link.sendall(b"Z" + json.dumps(message).encode() + b"\n")

    def spawn(self) -> None:
        """Forks the child for the next job."""
        ours, theirs = socket.socketpair()
        ours.shutdown(socket.SHUT_RD)  # a child has another way to answer
        answers, printed = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _become_child(theirs.fileno(), answers[1], printed[1], self.device)
            finally:
                os._exit(70)
        theirs.close()
        for fd in (answers[1], printed[1]):
            os.close(fd)
        self.child = Child(pid, ours, answers[0], printed[0], self.is_private)
        os.set_blocking(printed[0], False)

    def turn(self) -> None:
        child = self.child
        poll = select.poll()
        poll.register(self.link.fileno(), select.POLLIN)
        if child is not None:
            poll.register(child.from_child, select.POLLIN)
            if child.printed >= 0:
                poll.register(child.printed, select.POLLIN)
        timeout = WATCH_INTERVAL_MS if self.is_running else None
        ready = dict(poll.poll(timeout))
        if child is not None:
            if child.printed in ready:
                self.read_printed(child)
            if child.from_child in ready:
                self.relay(child)
        if self.link.fileno() in ready:
            self.read_link()
        # Last, and not at every turn: an answer that waits for it would cost
        # the candidate time that the baseline, watched by nobody, has.
        if self.is_running and time.monotonic() >= self.next_watch:
            self.next_watch = time.monotonic() + WATCH_INTERVAL_MS / 1000
            self.watch_memory()

    def read_printed(self, child: Child) -> None:
        if child.printed < 0:
            return
        try:
            data = os.read(child.printed, 65536)
        except BlockingIOError:
            return
        child.tail = (child.tail + data)[-PRINTED_BYTES_MAX:]
        if not data:  # closed: a pipe at its end would wake every poll
            os.close(child.printed)
            child.printed = -1

    def relay(self, child: Child) -> None:
        data = os.read(child.from_child, 65536)
        if not data:
            self.bury(child)
            return
        child.buffer += data
        if len(child.buffer) > LINE_BYTES_MAX:
            self.end("flooded")
            return
        *lines, child.buffer = child.buffer.split(b"\n")
        if lines and self.is_resting:
            self.rested(lines)
            return
        for line in lines:
            self.link.sendall(b"C" + line + b"\n")
        if lines and self.is_running and not self.is_frozen:
            # Stopped at once: what a thread would write later is not there
            # when the oracle looks.
            self.signal_all(signal.SIGSTOP)
            self.await_stop()
            self.is_frozen = True
            self.say({"frozen": True, "worked": child.work.lap()})

    def rested(self, lines: list[bytes]) -> None:
        """What the child said to that: it serves on, or it could not."""
        if lines != [b'{"rested": true}']:
            self.end("ended")
            return
        self.is_running = self.is_resting = False
        self.say({"ended": "rested"})

    def bury(self, child: Child) -> None:
        """The child closed its end: say how it ended."""
        # A crash closes its pipes before it can be waited for: without a
        # moment's patience its signal would be lost to our own SIGKILL.
        process.await_exit(child.pid, 0.2)
        self.end("exited")

    def read_link(self) -> None:
        data, fds, _, _ = socket.recv_fds(self.link, 1 << 16, 1)
        if not data:
            self.kill_all()
            os._exit(0)
        if fds:
            self.take_arena(fds[0])
        self.inbox += data
        *lines, self.inbox = self.inbox.split(b"\n")
        for line in lines:
            self.obey(line)

    def take_arena(self, fd: int) -> None:
        """For the next job: none runs."""
        if self.arena >= 0:
            os.close(self.arena)
        self.arena = fd

    def obey(self, line: bytes) -> None:
        if not line:  # carries the arena's descriptor, nothing more
            return
        order = json.loads(line)
        if order["do"] == "job":
            if self.child is None:
                self.spawn()
            self.job = order["job"]
            self.memory_bytes = order["memory_bytes"]
            self.is_running = True
            self.is_frozen = False
            self.tell_child(b"", [self.arena])
            self.tell_child(line)
        elif order["do"] == "call":
            self.wake(line)
        elif order["do"] == "rest":
            self.is_resting = self.is_running
            self.wake(line)
        elif order["do"] == "end":
            self.forks_ahead = order["ahead"]
            self.end("ended")

    def wake(self, line: bytes) -> None:
        """Lets it go on, with that order, if it stood still until now."""
        if self.child is None or not self.is_running:
            return  # its job has ended; that was said, and was not read yet
        if self.is_frozen and (self.take_change() or self.child.work.went_on()):
            self.end("woken")
            return
        self.is_frozen = False
        self.signal_all(signal.SIGCONT)
        self.take_change()  # our own is no news
        self.tell_child(line)

    def take_change(self) -> bool:
        """Whether the child was continued or stopped since this was asked: a
        timer of its own can send SIGCONT to a process that stands still."""
        flags = os.WCONTINUED | os.WSTOPPED | os.WNOHANG
        try:
            return self.child is not None and os.waitid(os.P_PID, self.child.pid, flags) is not None
        except ChildProcessError:
            return False

    def tell_child(self, line: bytes, fds: Sequence[int] = ()) -> None:
        assert self.child is not None  # one runs
        try:
            if fds:
                socket.send_fds(self.child.to_child, [line + b"\n"], fds)
            else:
                self.child.to_child.sendall(line + b"\n")
        except OSError:  # it is gone, which its answers' end tells
            pass

    def signal_all(self, number: int) -> None:
        if self.is_private:
            process.send_signal(-1, number)
        elif self.child is not None:
            try:
                os.killpg(self.child.pid, number)
            except (ProcessLookupError, PermissionError):
                process.send_signal(self.child.pid, number)

    def await_stop(self) -> None:
        """SIGSTOP is done when the kernel reports the whole group stopped."""
        if self.child is None:
            return
        flags = os.WNOWAIT | os.WSTOPPED | os.WEXITED
        try:
            os.waitid(os.P_PID, self.child.pid, flags)
        except ChildProcessError:
            return
        self.take_change()

    def end(self, how: str) -> None:
        """Ends the job, kills whatever it left, and reports."""
        child, was_running = self.child, self.is_running
        report: dict[str, Any] = {"ended": how}
        if child is not None:
            report.update(self.kill_all())
            report["printed"] = child.tail.decode("utf-8", "replace")
            # A process may set these of any other of its user's, and they cannot
            # all be set back.
            report["spoilt"] = process.manner() != self.manner
        self.is_running = self.is_resting = False
        if was_running or how == "ended":
            self.say(report)

    def kill_all(self) -> dict[str, int]:
        """Kills every process but this one; how the child ended."""
        child, self.child = self.child, None
        if child is None:
            return {}
        status = _reap(child.pid)
        if self.is_private:
            process.send_signal(-1, signal.SIGKILL)
        else:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if status is None:
            process.send_signal(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        self.kill_orphans()
        self.read_printed(child)
        child.close()
        if self.is_private:
            empty_memory_folders()
        return status or {}

    def kill_orphans(self) -> None:
        """Daemons were handed to us (or to the namespace's init)."""
        for _ in range(100):
            left = process.children()
            if not left:
                return
            for pid in left:
                process.send_signal(pid, signal.SIGKILL)
            for pid in left:
                try:
                    os.waitpid(pid, 0)
                except ChildProcessError:
                    pass

    def watch_memory(self) -> None:
        assert self.child is not None  # one runs
        used = process.resident_bytes(self.child.pid)
        if not self.is_private:
            pids = []
        else:
            pids = [int(n) for n in os.listdir("/proc") if n.isdigit()]
        own = {self.child.pid, os.getpid(), 1}
        used += sum(process.resident_bytes(p) for p in pids if p not in own)
        # What the fork shares with the zygote is not the job's doing.
        used -= process.resident_bytes(os.getpid())
        if self.memory_bytes and used > self.memory_bytes:
            self.end("out_of_memory")


def empty_memory_folders() -> None:
    """What a job leaves in memory would be counted as the next one's, and read by
    it. In weft's sandbox only: elsewhere these folders are the machine's."""
    if not os.path.exists(SANDBOX_LAUNCHER):
        return
    for path in ("/tmp", "/dev/shm"):
        # What cannot be removed stays: the watch over the tree counts it.
        with contextlib.suppress(OSError):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                tree_removal.empty(folder)
            finally:
                os.close(folder)


def _reap(pid: int) -> dict[str, int] | None:
    """{"signal"} or {"code"} of a child that ended by itself, else None."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return {"code": 0}
    if done == 0:
        return None
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"code": os.WEXITSTATUS(status)}


def _become_child(commands: int, answers: int, printed: int, device: str) -> NoReturn:
    """In the fork: only the job's own descriptors stay open."""
    # No session of its own: to the kernel it is as nice as the sandbox's.
    os.setpgid(0, 0)
    process.die_with_parent()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    # High numbers first, so that none is overwritten before it is moved.
    high = [os.dup2(fd, 200 + i, inheritable=False) for i, fd in enumerate((commands, answers))]
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.closerange(3, 200)
    from weft.candidate import harness

    harness.run_job(high[0], high[1], device)


def load(link: socket.socket, loads_compilers: bool) -> None:
    """What all jobs need; compilers too, if that leaves CUDA alone."""
    with garbage.deferred_collection():
        from weft.candidate import harness  # imports torch, runs nothing
        from weft.device import cuda_driver  # imports torch, runs nothing

        harness.prepare(loads_compilers)
    if loads_compilers and cuda_driver.is_in_use():
        # By some PyTorch's way to ask for devices. From the start, without.
        for fd in (0, 1):
            os.dup2(link.fileno(), fd)
        os.execv(sys.executable, [*sys.orig_argv[:-1], ""])


def main() -> None:
    link = socket.socket(fileno=os.dup(0))
    # Nothing but this socket may reach the oracle; prints go nowhere.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    if os.getppid() == int(os.environ.get("WEFT_ORACLE_PID", "-1")):
        process.die_with_parent()
    process.adopt_orphans()
    outside, device, compilers = sys.argv[1:]
    load(link, compilers == "compilers")
    is_private = process.pid_namespace() != outside
    process.harden()
    try:
        Zygote(link, is_private, device).serve()
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)


if __name__ == "__main__":
    main()
