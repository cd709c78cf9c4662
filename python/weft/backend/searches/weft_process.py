"""The weft program: where it is, and a run of it as a child process.

As a command, `python -m weft.backend.searches.weft_process` and the console script
`weft` of an installed wheel become that program.

A child process reads from a pipe that this process holds open (`weft attached`). The
pipe closes however this process ends, and the child ends then, with all that it
started. PR_SET_PDEATHSIG would not do: it follows the thread that started the child.
"""

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import typing

import weft
from weft.device import process


class Event(typing.Protocol):
    """What says that a run is not wanted any more."""

    def is_set(self) -> bool: ...


#: `weft attached` takes a second to end all that it started; who has not ended
#: after this time is killed.
GRACE_S = 5.0
STDERR_CHARS_MAX = 4000


@dataclasses.dataclass(eq=False)
class Child:
    """A run of the program, and the end of the pipe that keeps it alive."""

    process: subprocess.Popen[str]
    pipe: int

    def end(self) -> None:
        """Ends it with all its descendants."""
        self.ask_to_end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_S)
        if self.process.returncode is None or self.process.returncode < 0:
            # It was killed itself, or is stuck: its session is what is left.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def ask_to_end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def close_pipe(self) -> None:
        """As the end of this process does: the child ends, and its folder goes."""
        pipe, self.pipe = self.pipe, -1
        if pipe >= 0:
            os.close(pipe)


_running: set[Child] = set()
_running_lock = threading.RLock()


class ProgramMissing(Exception):
    """There is no weft program beside this package, or on the PATH."""


def find() -> str:
    """The path of the program: WEFT_BIN, the wheel's, a checkout's build, then
    the PATH's."""
    named = os.environ.get("WEFT_BIN")
    if named:
        if os.access(named, os.X_OK):
            return named
        raise ProgramMissing(f"WEFT_BIN names {named}, which is no program")
    package = os.path.dirname(weft.__file__)
    for path in (
        os.path.join(package, "native", "bin", "weft"),
        os.path.join(package, "..", "..", "build", "weft"),
        os.path.join(package, "..", "..", "..", "..", "bin", "weft"),
    ):
        if os.access(path, os.X_OK):
            return os.path.normpath(path)
    found = shutil.which("weft")
    if found and not _is_this_script(found):
        return found
    raise ProgramMissing(
        "the program weft was not found next to its Python package: "
        "reinstall weft (pip install), or name the program with WEFT_BIN"
    )


def _is_this_script(path: str) -> bool:
    """Whether that is the console script, which would call itself."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def run(
    words: list[str],
    limit_s: float,
    cancelled: Event | None = None,
    answer: int | typing.IO[typing.Any] = subprocess.DEVNULL,
    removed: str = "",
) -> tuple[int | None, str]:
    """(exit code, end of standard error) of the program with these words; what
    it prints goes to the file `answer`. It is ended after limit_s, or when
    the event `cancelled` is set; the code is None then. It ends with this
    process, however that ends; the folder `removed` then goes, too."""
    niceness = os.environ.get("WEFT_NICE", "10")
    attached = ["attached", "--nice", niceness]
    if removed:
        attached += ["--remove", removed]
    child = _start([find(), *attached, *words], answer)
    try:
        if niceness.isdecimal():  # else the program says that it is no number
            process.nice_session(child.process.pid, min(19, os.nice(0) + int(niceness)))
        return _wait(child, limit_s, cancelled)
    finally:
        with _running_lock:
            _running.discard(child)
            child.close_pipe()


def _start(command: list[str], answer: int | typing.IO[typing.Any]) -> Child:
    environment = dict(os.environ)
    environment.setdefault("WEFT_PYTHON", sys.executable)
    # The search is not the user's torch.compile: it must not start another.
    environment["WEFT_DISABLE"] = "1"
    # The lock is held by who forks, too: each child process knows the pipe, and
    # closes it (_forget_all).
    with _running_lock:
        reader, writer = os.pipe()
        try:
            child = Child(
                subprocess.Popen(
                    command,
                    stdin=reader,
                    stdout=answer,
                    stderr=subprocess.PIPE,
                    env=environment,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                ),
                writer,
            )
        except BaseException:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        _running.add(child)
    return child


def _wait(child: Child, limit_s: float, cancelled: Event | None) -> tuple[int | None, str]:
    told: list[str] = []
    errors = child.process.stderr
    assert errors is not None
    reader = threading.Thread(
        target=lambda: told.append(errors.read()[-STDERR_CHARS_MAX:]), daemon=True
    )
    reader.start()
    code, until = None, time.monotonic() + limit_s
    while time.monotonic() < until and not (cancelled and cancelled.is_set()):
        try:
            code = child.process.wait(0.2)
            break
        except subprocess.TimeoutExpired:
            continue
    child.end()
    reader.join(GRACE_S)
    errors.close()
    return code, "".join(told).strip()


def end_all() -> None:
    """Before this process ends. The threads that would remove the searches' folders
    may not get to that any more."""
    with _running_lock:
        children = list(_running)
        for child in children:
            child.close_pipe()
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(GRACE_S)
        child.end()


def _forget_all() -> None:
    """In a child process: what its parent runs is not its own to end, nor to keep
    alive when the parent is gone."""
    global _running, _running_lock
    for child in _running:
        child.close_pipe()
    _running, _running_lock = set(), threading.RLock()


os.register_at_fork(
    before=lambda: _running_lock.acquire(),
    after_in_parent=lambda: _running_lock.release(),
    after_in_child=_forget_all,
)


def main() -> int:
    """Becomes the program."""
    try:
        program = find()
    except ProgramMissing as error:
        print(f"weft: {error}", file=sys.stderr)
        return 3
    os.environ.setdefault("WEFT_PYTHON", sys.executable)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
