"""The weft program: where it is, and a run of it as a child process.

As a command, `python -m weft.backend.program` and the console script `weft` of
an installed wheel become that program.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from weft.device import process

#: After a signal, before the next.
GRACE_S = 10.0
STDERR_CHARS_MAX = 4000

_running = set()
_running_lock = threading.Lock()


class ProgramMissing(Exception):
    """There is no weft program beside this package, or on the PATH."""


def find():
    """The path of the program: WEFT_BIN, the wheel's, a checkout's build, then
    the PATH's."""
    named = os.environ.get("WEFT_BIN")
    if named:
        if os.access(named, os.X_OK):
            return named
        raise ProgramMissing(f"WEFT_BIN names {named}, which is no program")
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for path in (os.path.join(package, "native", "bin", "weft"),
                 os.path.join(package, "..", "..", "build", "weft"),
                 os.path.join(package, "..", "..", "..", "..", "bin", "weft")):
        if os.access(path, os.X_OK):
            return os.path.normpath(path)
    found = shutil.which("weft")
    if found and not _is_this_script(found):
        return found
    raise ProgramMissing("the program weft is not beside its Python package: "
                         "install weft whole (pip install), or name the "
                         "program with WEFT_BIN")


def _is_this_script(path):
    """Whether that is the console script, which would call itself."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def run(words, limit_s, cancelled=None, answer=subprocess.DEVNULL):
    """(exit code, end of standard error) of the program with these words; what
    it prints goes to the file `answer`. It is interrupted after limit_s, or when
    the event `cancelled` is set; the code is None then. No child survives this
    process's orderly end."""
    limiter = ["timeout", "--signal=INT", f"--kill-after={GRACE_S:g}",
               f"{limit_s + GRACE_S:g}"]
    niceness = os.environ.get("WEFT_NICE", "10")
    nice = ["nice", "-n", niceness]
    command = [tool for tools in (limiter, nice) if shutil.which(tools[0])
               for tool in tools] + [find(), *words]
    environment = dict(os.environ)
    environment.setdefault("WEFT_PYTHON", sys.executable)
    # The search is not the user's torch.compile: it must not start another.
    environment["WEFT_DISABLE"] = "1"
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                             stdout=answer, stderr=subprocess.PIPE,
                             env=environment, text=True, errors="replace",
                             start_new_session=True)
    with _running_lock:
        _running.add(child)
    try:
        if niceness.isdecimal():  # else nice says that it is no number
            process.nice_session(
                child.pid, min(19, os.nice(0) + int(niceness)))
        return _wait(child, limit_s, cancelled)
    finally:
        with _running_lock:
            _running.discard(child)


def _wait(child, limit_s, cancelled):
    told = []
    reader = threading.Thread(target=lambda: told.append(
        child.stderr.read()[-STDERR_CHARS_MAX:]), daemon=True)
    reader.start()
    code, until = None, time.monotonic() + limit_s
    while time.monotonic() < until and not (cancelled and cancelled.is_set()):
        try:
            code = child.wait(0.2)
            break
        except subprocess.TimeoutExpired:
            continue
    if code is None:
        end(child)
    reader.join(GRACE_S)
    child.stderr.close()
    return code, "".join(told).strip()


def end(child):
    """Interrupts it as Ctrl-C does; kills what does not end then."""
    for sign in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(child.pid, sign)
            child.wait(GRACE_S)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def end_all():
    """Before this process ends."""
    with _running_lock:
        children = list(_running)
    for child in children:
        end(child)


def _forget_all():
    """In a child process: what its parent runs is not its own to end."""
    global _running, _running_lock
    _running, _running_lock = set(), threading.Lock()


os.register_at_fork(after_in_child=_forget_all)


def main():
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
