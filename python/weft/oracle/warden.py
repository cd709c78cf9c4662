"""Runs an oracle whose problem is not trusted in a sandbox.

    python -m weft.oracle.warden --scratch DIR --sandbox WORDS
        --oracle-sandbox WORDS -- OPTIONS OF THE ORACLE

The warden is trusted. It does not load PyTorch or the problem. It does for the oracle what
the oracle's sandbox forbids: it prepares candidates' files, starts the candidates' sandbox,
and makes shared memory. The oracle asks by JSON lines (warden_client.py). These requests
are as little trusted as the problem.
"""

import argparse
import base64
import fcntl
import json
import os
import socket
import subprocess
import sys
from typing import Any, Callable

from weft.candidate.zygote_process import NotStarted, ZygoteProcess, start_zygote
from weft.device import process, shared_memory
from weft.judge.job_folders import JobFolders, NotStaged

#: A request is a line: the largest holds a candidate's file.
LINE_BYTES_MAX = 512 << 20
#: Maximum size of one shared memory, as a share of the machine's free memory.
MEMORY_SHARE_MAX = 0.5
#: Maximum sum of all that are held at a time, as a share of the machine's memory.
MEMORY_SUM_SHARE_MAX = 0.75

Reply = dict[str, Any]


class HeldMemory:
    """Shared memory that was made and is still open or mapped somewhere. A process that
    writes into a descriptor fills memory that is not counted as the process's own."""

    def __init__(self) -> None:
        self._probes: list[tuple[int, int]] = []  # descriptor, bytes

    def made(self, size_bytes: int) -> int:
        """A descriptor of new memory, filled with zeros. It counts until its last
        descriptor is closed and its last mapping is removed."""
        first = shared_memory.make_here(size_bytes)
        try:
            # The kernel counts files that were opened by a path, not the memfd itself.
            # A second open file, the probe, reads that count.
            path = f"/proc/self/fd/{first}"
            given = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            probe = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(first)
        self._probes.append((probe, size_bytes))
        return given

    def make_room(self, size_bytes: int) -> None:
        """Raises MemoryError if `size_bytes` more would exceed the limit."""
        held = []
        for probe, size in self._probes:
            if _is_last(probe):
                os.close(probe)
            else:
                held.append((probe, size))
        self._probes = held
        all_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if sum(size for _, size in held) + size_bytes > MEMORY_SUM_SHARE_MAX * all_bytes:
            raise MemoryError


def _is_last(probe: int) -> bool:
    """Whether no other open file or mapping is left. The kernel grants a write lease
    only then."""
    try:
        fcntl.fcntl(probe, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    fcntl.fcntl(probe, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


class Warden:
    """Answers the oracle's requests. Each verb returns its reply and the descriptors
    that go with it, which are closed once they are sent."""

    def __init__(self, folders: JobFolders, prefix: list[str], device: str) -> None:
        self._folders = folders
        self._prefix = prefix
        self._device = device
        self._zygote: ZygoteProcess | None = None
        self._memory_held = HeldMemory()
        self._verbs: dict[str, Callable[[Reply], tuple[Reply, list[int]]]] = {
            "launch": self._launch,
            "is_alive": self._is_alive,
            "is_suspended": self._is_suspended,
            "kill": self._kill,
            "begin": self._begin,
            "place": self._place,
            "build_folder": self._build_folder,
            "keep_build": self._keep_build,
            "memory": self._memory,
        }

    def answer(self, line: bytes) -> tuple[Reply, list[int]]:
        try:
            request = json.loads(line)
            return self._verbs[request["do"]](request)
        except NotStaged as error:
            return {"error": "not_staged", "message": str(error)}, []
        except NotStarted as error:
            return {"error": "not_started", "message": str(error)}, []
        except OSError as error:
            return {
                "error": "os",
                "errno": error.errno or 0,
                "message": error.strerror or str(error),
            }, []
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            return {"error": "bad_request", "message": repr(error)[:200]}, []

    def close(self) -> None:
        if self._zygote is not None:
            self._zygote.kill()
            self._zygote = None

    def _launch(self, _: Reply) -> tuple[Reply, list[int]]:
        self.close()
        self._folders.renew_work()
        self._zygote = start_zygote(self._prefix, os.environ, self._device)
        descriptors = [os.dup(self._zygote.link.fileno()), os.dup(self._zygote.complaints)]
        return {}, descriptors

    def _is_alive(self, _: Reply) -> tuple[Reply, list[int]]:
        alive = self._zygote is not None and self._zygote.is_alive()
        return {"alive": alive}, []

    def _is_suspended(self, _: Reply) -> tuple[Reply, list[int]]:
        suspended = self._zygote is not None and self._zygote.is_suspended()
        return {"suspended": suspended}, []

    def _kill(self, _: Reply) -> tuple[Reply, list[int]]:
        self.close()
        return {}, []

    def _begin(self, _: Reply) -> tuple[Reply, list[int]]:
        self._folders.begin()
        return {}, []

    def _place(self, request: Reply) -> tuple[Reply, list[int]]:
        content = base64.b64decode(request["content"], validate=True)
        return {"path": self._folders.place(request["name"], content)}, []

    def _build_folder(self, request: Reply) -> tuple[Reply, list[int]]:
        content = base64.b64decode(request["content"], validate=True)
        return {"path": self._folders.build_folder(content)}, []

    def _keep_build(self, _: Reply) -> tuple[Reply, list[int]]:
        self._folders.keep_build()
        return {}, []

    def _memory(self, request: Reply) -> tuple[Reply, list[int]]:
        size_bytes = request["bytes"]
        if type(size_bytes) is not int or size_bytes < 1:
            raise ValueError("memory has a positive size")
        pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size_bytes > MEMORY_SHARE_MAX * pages:
            raise MemoryError
        self._memory_held.make_room(size_bytes)
        return {}, [self._memory_held.made(size_bytes)]


def serve(link: socket.socket, warden: Warden) -> None:
    """Until the oracle is gone."""
    rest = bytearray()
    while data := link.recv(1 << 20):
        rest += data
        while (end := rest.find(b"\n")) >= 0:
            line = bytes(rest[:end])
            del rest[: end + 1]
            try:
                reply, descriptors = warden.answer(line)
            except MemoryError:
                reply, descriptors = {"error": "memory", "message": ""}, []
            told = json.dumps(reply).encode() + b"\n"
            try:
                # The descriptors come with the first byte.
                socket.send_fds(link, [told[:1]], descriptors)
                link.sendall(told[1:])
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        if len(rest) > LINE_BYTES_MAX:
            return


def start_oracle(
    prefix: list[str], words: list[str], control: socket.socket
) -> subprocess.Popen[bytes]:
    """The oracle in its sandbox. It takes over this process's standard input."""
    ours, theirs = socket.socketpair()
    command = [*prefix, sys.executable, "-P", "-m", "weft.oracle.oracle", "--boxed", *words]
    oracle = subprocess.Popen(command, stdin=theirs.fileno())
    theirs.close()
    socket.send_fds(ours, [b"\n"], [0, control.fileno()])
    ours.close()
    # Whoever reads replies must see their end when the oracle ends.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    return oracle


def main() -> None:
    process.die_with_parent()
    parser = argparse.ArgumentParser(prog="weft.oracle.warden")
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--sandbox", type=json.loads, required=True)
    parser.add_argument("--oracle-sandbox", type=json.loads, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    words = [word for word in options.words if word != "--"]
    folders = JobFolders(options.scratch)
    os.mkdir(os.path.join(options.scratch, "oracle"), 0o755)
    warden = Warden(folders, options.sandbox, options.device)
    ours, theirs = socket.socketpair()
    try:
        oracle = start_oracle(options.oracle_sandbox, [*words, "--device", options.device], theirs)
    except OSError as error:
        sys.exit(f"weft.oracle.warden: cannot start the sandbox: {error}")
    theirs.close()
    try:
        serve(ours, warden)
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        warden.close()
        oracle.kill()
        oracle.wait()


if __name__ == "__main__":
    main()
