"""A language model's API that says what a test wants it to say.

Real sockets, optionally TLS; OpenAI chat completions, OpenAI responses and
Anthropic messages, streamed or whole. A callable or a JSON script answers; the
server counts calls, calls at once and arrival times.

    with LlmServer(lambda call: "a kernel") as server:
        ... base_url = server.openai_url or server.anthropic_url ...
        server.calls, server.at_once_max, server.arrivals

As a program: llm_server.py SCRIPT.json prints {"url": ...} and serves until its
standard input ends. A script is a list of rules, tried in order:
    [{"contains": "softmax", "replies": ["text", {"status": 429}, "text"]}]
The last reply of a rule repeats; a rule without "contains" takes every call.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_batches import LlmBatches

USAGE = {"input": 100, "cached": 0, "written": 0, "output": 20, "reasoning": 0}


@dataclass
class Call:
    """A request that came in."""

    number: int  # from 1
    dialect: str  # "openai", "responses", "anthropic", "models"
    path: str
    headers: dict[str, str]  # lower-case names
    body: dict
    prompt: str  # all texts of all messages
    arrived_s: float  # monotonic

    @property
    def samples(self) -> int:
        return int(self.body.get("n") or 1)


@dataclass
class Reply:
    """What goes back. Without further words: a stream that ends well."""

    text: str | list[str] = ""  # a list: one a choice
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: dict | None = None  # with status 200: sent as an error event
    usage: dict | None = field(default_factory=lambda: dict(USAGE))
    finish: str = "stop"  # "stop", "length", "refusal"
    model: str = ""  # default: the one asked for
    chunk_chars: int = 400  # of text in one event
    delay_s: float = 0  # before the first byte
    event_delay_s: float = 0  # before each event
    hang: str = ""  # "before" headers, or "within" the stream
    cut: bool = False  # closes the connection in mid-stream
    edit: Callable[[list[bytes]], list[bytes]] | None = None  # of the events
    raw: bytes | None = None  # the body, as it is
    content_type: str = ""


Answer = Callable[[Call], "str | Reply"]


def scripted(rules: list[dict]) -> Answer:
    """The callable that a JSON script stands for."""
    used = [0] * len(rules)
    lock = threading.Lock()

    def answer(call: Call) -> str | Reply:
        for index, rule in enumerate(rules):
            if rule.get("contains", "") not in call.prompt:
                continue
            with lock:
                place = min(used[index], len(rule["replies"]) - 1)
                used[index] += 1
            reply = rule["replies"][place]
            return Reply(**reply) if isinstance(reply, dict) else reply
        return Reply(status=404, error={"message": "no rule for this prompt"})

    return answer


def make_certificate(folder: str) -> tuple[str, str]:
    """A self-signed certificate for localhost: its file, and its key's."""
    certificate = os.path.join(folder, "server.pem")
    key = os.path.join(folder, "server.key")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


# --- what each dialect says ---------------------------------------------------


def event(data, name: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    head = f"event: {name}\n" if name else ""
    return (head + f"data: {text}\n\n").encode()


def pieces_of(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def openai_usage(usage: dict) -> dict:
    return {
        "prompt_tokens": usage["input"],
        "completion_tokens": usage["output"],
        "total_tokens": usage["input"] + usage["output"],
        "prompt_tokens_details": {"cached_tokens": usage["cached"]},
        "completion_tokens_details": {"reasoning_tokens": usage["reasoning"]},
    }


def openai_events(reply: Reply, model: str, texts: list[str]) -> list[bytes]:
    finish = {"refusal": "content_filter"}.get(reply.finish, reply.finish)

    def chunk(choices, **more):
        return event(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "model": model,
                "choices": choices,
                **more,
            }
        )

    events = [
        chunk([{"index": i, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
        for i in range(len(texts))
    ]
    for i, text in enumerate(texts):
        events += [
            chunk([{"index": i, "delta": {"content": piece}, "finish_reason": None}])
            for piece in pieces_of(text, reply.chunk_chars)
        ]
        events.append(chunk([{"index": i, "delta": {}, "finish_reason": finish}]))
    if reply.usage:
        events.append(chunk([], usage=openai_usage(reply.usage)))
    return [*events, event("[DONE]")]


def anthropic_usage(usage: dict) -> dict:
    fresh = usage["input"] - usage["cached"] - usage["written"]
    return {
        "input_tokens": fresh,
        "output_tokens": 1,
        "cache_creation_input_tokens": usage["written"],
        "cache_read_input_tokens": usage["cached"],
    }


def anthropic_events(reply: Reply, model: str, texts: list[str]) -> list[bytes]:
    finish = {"stop": "end_turn", "length": "max_tokens"}.get(reply.finish, reply.finish)

    def say(kind, **more):
        return event({"type": kind, **more}, kind)

    start = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
    }
    ending = {}
    if reply.usage:
        start["usage"] = anthropic_usage(reply.usage)
        ending["usage"] = {"output_tokens": reply.usage["output"]}
    events = [
        say("message_start", message=start),
        say("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        say("ping"),
    ]
    events += [
        say("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        for piece in pieces_of(texts[0], reply.chunk_chars)
    ]
    return [
        *events,
        say("content_block_stop", index=0),
        say("message_delta", delta={"stop_reason": finish}, **ending),
        say("message_stop"),
    ]


def responses_events(reply: Reply, model: str, texts: list[str]) -> list[bytes]:
    def say(kind, **more):
        return event({"type": kind, **more}, kind)

    response = {"id": "resp_1", "model": model, "status": "in_progress"}
    events = [say("response.created", response=response)]
    events += [
        say("response.output_text.delta", output_index=0, delta=piece)
        for piece in pieces_of(texts[0], reply.chunk_chars)
    ]
    ended = dict(response, status="completed")
    if reply.usage:
        usage = reply.usage
        ended["usage"] = {
            "input_tokens": usage["input"],
            "output_tokens": usage["output"],
            "input_tokens_details": {"cached_tokens": usage["cached"]},
            "output_tokens_details": {"reasoning_tokens": usage["reasoning"]},
        }
    if reply.finish == "length":
        ended |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        return [*events, say("response.incomplete", response=ended)]
    return [*events, say("response.completed", response=ended)]


EVENTS = {"openai": openai_events, "anthropic": anthropic_events, "responses": responses_events}


def openai_whole(reply: Reply, model: str, texts: list[str]) -> dict:
    whole = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [
            {
                "index": i,
                "finish_reason": reply.finish,
                "message": {"role": "assistant", "content": text},
            }
            for i, text in enumerate(texts)
        ],
    }
    return whole | ({"usage": openai_usage(reply.usage)} if reply.usage else {})


def error_body(dialect: str, status: int, error: dict | None) -> dict:
    error = error or {"message": f"the script says {status}"}
    if dialect == "anthropic":
        return {"type": "error", "error": {"type": "api_error", **error}}
    return {"error": {"type": "server_error", "code": None, **error}}


# --- the server ---------------------------------------------------------------


def texts_in(value) -> list[str]:
    """Every text of the messages, in order."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]
    if isinstance(value, dict):
        return texts_in(value.get("content", value.get("text", "")))
    return []


def dialect_of(path: str) -> str:
    for ending, dialect in (
        ("/chat/completions", "openai"),
        ("/responses", "responses"),
        ("/messages", "anthropic"),
        ("/models", "models"),
    ):
        if path.split("?")[0].endswith(ending):
            return dialect
    return ""


class LlmServer:
    """Serves from a thread of its own between __enter__ and __exit__."""

    def __init__(
        self,
        answer: Answer,
        *,
        certificate: tuple[str, str] | None = None,
        models: tuple[str, ...] = ("scripted",),
        port: int = 0,
        batches: LlmBatches | None = None,
    ):
        self.batches = batches
        self.answer = answer
        self.models = models
        self.calls: list[Call] = []
        self.at_once = 0
        self.at_once_max = 0
        self.connections = 0
        self.finished = 0  # calls whose reply was sent whole
        self._certificate = certificate
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._port = port
        self._tasks: set[asyncio.Task] = set()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        scheme = "https" if self._certificate else "http"
        return f"{scheme}://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        return self.url + "/v1"

    @property
    def anthropic_url(self) -> str:
        return self.url

    @property
    def arrivals(self) -> list[float]:
        return [call.arrived_s for call in self.calls]

    def __enter__(self) -> LlmServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _serve(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self):
        self._stop = asyncio.Event()
        context = None
        if self._certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._certificate)
        server = await asyncio.start_server(
            self._connection, "127.0.0.1", self._port, ssl=context, backlog=1024, limit=1 << 26
        )
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader, writer):
        self.connections += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _request(self, reader, writer) -> bool:
        """One request on this connection; false when it must be closed."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        if headers.get("expect"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        bytes_ = await reader.readexactly(int(headers.get("content-length", 0)))
        path = first.split(" ")[1]
        if self.batches and self.batches.is_meant(path):
            status, answered = self.batches.take(first.split(" ")[0], path, headers, bytes_)
            await self._send(writer, status, {}, "application/json", answered)
            return True
        body = json.loads(bytes_) if bytes_ else {}
        dialect = dialect_of(path)
        if dialect == "models":
            return await self._send_models(writer)
        texts = texts_in(body.get("system", "")) + texts_in(body.get("messages", []))
        texts += texts_in(body.get("instructions", "")) + texts_in(body.get("input", []))
        call = Call(0, dialect, path, headers, body, "\n".join(texts), time.monotonic())
        with self._lock:
            self.calls.append(call)
            call.number = len(self.calls)
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        try:
            return await self._reply(call, reader, writer)
        finally:
            self.at_once -= 1

    async def _send_models(self, writer) -> bool:
        data = [{"id": name, "object": "model", "type": "model"} for name in self.models]
        await self._send(
            writer,
            200,
            {},
            "application/json",
            json.dumps({"object": "list", "data": data}).encode(),
        )
        return True

    async def _reply(self, call, reader, writer) -> bool:
        reply = (
            self.answer(call)
            if call.dialect
            else Reply(status=404, error={"message": f"there is nothing at {call.path}"})
        )
        if not isinstance(reply, Reply):
            reply = Reply(text=reply)
        await asyncio.sleep(reply.delay_s)
        if reply.hang == "before":
            await reader.read()  # until the client goes
            return False
        if reply.raw is not None:
            kind = reply.content_type or "text/event-stream"
            await self._send(writer, reply.status, reply.headers, kind, reply.raw)
            self.finished += 1
            return True
        if reply.status != 200:
            body = json.dumps(error_body(call.dialect, reply.status, reply.error))
            await self._send(writer, reply.status, reply.headers, "application/json", body.encode())
            self.finished += 1
            return True
        return await self._succeed(call, reply, reader, writer)

    async def _succeed(self, call, reply, reader, writer) -> bool:
        texts = reply.text if isinstance(reply.text, list) else ([reply.text] * call.samples)
        model = reply.model or call.body.get("model", "scripted")
        if not call.body.get("stream"):
            body = json.dumps(openai_whole(reply, model, texts)).encode()
            await self._send(writer, 200, reply.headers, "application/json", body)
            self.finished += 1
            return True
        events = EVENTS[call.dialect](reply, model, texts)
        if reply.error:
            name = "error" if call.dialect != "openai" else ""
            said = error_body(call.dialect, 200, reply.error) | ({"type": "error"} if name else {})
            events = [*events[:2], event(said, name)]
        if reply.edit:
            events = reply.edit(events)
        if reply.cut or reply.hang:
            events = events[: len(events) // 2]
        kind = reply.content_type or "text/event-stream; charset=utf-8"
        writer.write(self._head(200, reply.headers, kind) + b"Transfer-Encoding: chunked\r\n\r\n")
        for said in events:
            if reply.event_delay_s:
                await asyncio.sleep(reply.event_delay_s)
            writer.write(f"{len(said):x}\r\n".encode() + said + b"\r\n")
            await writer.drain()
        if reply.hang:
            await reader.read()
        if reply.cut or reply.hang:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        self.finished += 1
        return True

    @staticmethod
    def _head(status, headers, kind) -> bytes:
        lines = [
            f"HTTP/1.1 {status} Scripted",
            f"Content-Type: {kind}",
            "x-request-id: req_scripted",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\n").encode("latin-1")

    async def _send(self, writer, status, headers, kind, body: bytes):
        writer.write(
            self._head(status, headers, kind)
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rules = json.load(file)
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with LlmServer(scripted(rules), port=port) as server:
        print(
            json.dumps(
                {"url": server.url, "openai": server.openai_url, "anthropic": server.anthropic_url}
            ),
            flush=True,
        )
        sys.stdin.read()
        print(
            json.dumps({"calls": len(server.calls), "at_once_max": server.at_once_max}), flush=True
        )


if __name__ == "__main__":
    main()
