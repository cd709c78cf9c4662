"""Starts a zygote (zygote.py) under a sandbox prefix: the process and its link."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Mapping, Sequence, Union

from weft.device import process

if TYPE_CHECKING:
    from weft.oracle.warden_client import OutsideZygote


#: Starts a zygote: sandbox prefix, environment, device.
Starter = Callable[[Sequence[str], Mapping[str, str], str], Union["ZygoteProcess", "OutsideZygote"]]


#: A sandbox that is asked to end takes some ten milliseconds; a GPU's driver may hold
#: its processes for longer.
END_S = 5.0


class NotStarted(Exception):
    """The sandbox's program cannot be started; the text says why."""


@dataclass
class ZygoteProcess:
    """A started zygote. `complaints` is the reading end of its standard error."""

    link: socket.socket
    complaints: int
    process: subprocess.Popen[bytes]

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def is_suspended(self) -> bool:
        """Whether somebody has stopped the zygote, which never stops by itself."""
        zygote = process.first_descendant(self.process.pid, sys.executable)
        return zygote != 0 and process.is_suspended(zygote)

    def kill(self) -> None:
        """Ends it with its tree and closes its link; returns when all have ended, or
        are killed after END_S."""
        self.link.close()
        os.close(self.complaints)
        # The sandbox's launcher, asked so, ends when the sandbox is gone.
        self.process.terminate()
        process.await_exit(self.process.pid, END_S)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()
        self.process.wait()


def start_zygote(
    prefix: Sequence[str], environment: Mapping[str, str], device: str
) -> ZygoteProcess:
    """NotStarted: the prefix's program is missing or cannot run."""
    ours, theirs = socket.socketpair()
    folder = str(pathlib.Path(__file__).resolve().parents[2])
    program = (
        f"import sys; sys.path.insert(0, {folder!r}); "
        "from weft.candidate.zygote import main; main()"
    )
    # -P and -s: not a module may come from the scratch folder (the working
    # folder and home), where an earlier candidate could have left it.
    words = [
        "-P",
        "-s",
        "-c",
        program,
        process.pid_namespace(),
        device,
        "" if device == "cpu" else "compilers",
    ]
    environment = {**environment, "WEFT_ORACLE_PID": str(os.getpid())}
    if device != "cpu":
        # Else PyTorch uses the driver to count devices, and a process that
        # has used it cannot fork another that does.
        environment["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    # A pipe is bounded, unlike a file, should a candidate reach it.
    reader, writer = os.pipe()
    try:
        started = subprocess.Popen(
            [*prefix, sys.executable, *words],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=writer,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        os.close(reader)
        raise NotStarted(f"cannot start the sandbox: {error}") from None
    finally:
        theirs.close()
        os.close(writer)
    process.nice_session(started.pid, os.nice(0))
    return ZygoteProcess(ours, reader, started)
