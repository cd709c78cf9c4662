"""Asks the warden (warden.py) for what a sandboxed oracle cannot do itself."""

import base64
import json
import os
import socket
from typing import Any, Mapping, Sequence

from weft.candidate.zygote_process import NotStarted
from weft.judge.job_folders import NotStaged

REPLY_BYTES_MAX = 1 << 16


class Outside:
    """Asks the warden. Not thread-safe."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def ask(self, verb: str, **fields: Any) -> tuple[dict[str, Any], list[int]]:
        """The reply and the descriptors that came with it. NotStaged, NotStarted or
        OSError is what the warden met."""
        self._link.sendall(json.dumps({"do": verb, **fields}).encode() + b"\n")
        reply, descriptors = b"", []
        while not reply.endswith(b"\n"):
            data, more, _, _ = socket.recv_fds(self._link, REPLY_BYTES_MAX, 2)
            if not data:
                os._exit(0)  # the warden is gone, and all that it started
            reply += data
            descriptors += more
        told = json.loads(reply)
        message = str(told.get("message", ""))
        match told.get("error"):
            case None:
                return told, descriptors
            case "not_staged":
                raise NotStaged(message)
            case "not_started":
                raise NotStarted(message)
            case "memory":
                raise MemoryError("the machine has too little memory")
            case "os":
                raise OSError(told["errno"], message)
        raise RuntimeError(f"the warden refuses {verb}: {message}")

    def make_memory(self, size_bytes: int) -> int:
        """As shared_memory.make_here."""
        [descriptor] = self.ask("memory", bytes=size_bytes)[1]
        return descriptor

    def start_zygote(
        self, prefix: Sequence[str], environment: Mapping[str, str], device: str
    ) -> "OutsideZygote":
        """As zygote_process.start_zygote; the warden knows prefix, environment and
        device."""
        link, complaints = self.ask("launch")[1]
        return OutsideZygote(self, socket.socket(fileno=link), complaints)


class OutsideZygote:
    """As zygote_process.ZygoteProcess."""

    def __init__(self, outside: Outside, link: socket.socket, complaints: int) -> None:
        self._outside = outside
        self.link = link
        self.complaints = complaints

    def is_alive(self) -> bool:
        return bool(self._outside.ask("is_alive")[0]["alive"])

    def is_suspended(self) -> bool:
        return bool(self._outside.ask("is_suspended")[0]["suspended"])

    def kill(self) -> None:
        self.link.close()
        os.close(self.complaints)
        self._outside.ask("kill")


class OutsideFolders:
    """As job_folders.JobFolders. A new sandbox gets its folders by its launch."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def renew_work(self) -> None:
        """The warden does, when it launches."""

    def begin(self) -> None:
        self._outside.ask("begin")

    def place(self, name: str, content: bytes) -> str:
        told, _ = self._outside.ask("place", name=name, content=_text(content))
        return str(told["path"])

    def build_folder(self, content: bytes) -> str:
        told, _ = self._outside.ask("build_folder", content=_text(content))
        return str(told["path"])

    def keep_build(self) -> None:
        self._outside.ask("keep_build")

    def close(self) -> None:
        """The warden's end closes them."""


def connect() -> Outside:
    """Takes over what the warden sends first: the oracle's requests, which become the
    standard input, and the link to the warden."""
    first = socket.socket(fileno=os.dup(0))
    _, [requests, link], _, _ = socket.recv_fds(first, 1, 2)
    first.close()
    os.dup2(requests, 0)
    os.close(requests)
    return Outside(socket.socket(fileno=link))


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
