"""The batch APIs of OpenAI and Anthropic, for LlmServer: batches that end when a test
says so.

    batches = LlmBatches(lambda body: "a kernel")
    with LlmServer(None, batches=batches) as server:
        ... batches.end()
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable

from llm_server import Reply, anthropic_usage, openai_whole, texts_in

#: A line of results may be one of these instead of an answer.
EXPIRED, ERRORED, ABSENT = object(), object(), object()


class LlmBatches:
    """`answer` maps a call's body to its text, or to one of the above."""

    def __init__(self, answer: Callable[[dict], object]):
        self.answer = answer
        self.files: dict[str, str] = {}
        self.batches: dict[str, dict] = {}
        self.requests: list[tuple[str, str]] = []  # (method, path)
        self.calls: list[dict] = []  # bodies, in the order in which they came
        self.ends_at_once = False
        #: Answers to the next requests, instead of the usual ones: (status, body).
        self.refusals: list[tuple[int, dict]] = []
        self._lock = threading.Lock()

    @staticmethod
    def is_meant(path: str) -> bool:
        return re.search("/files|/batches", path) is not None

    def end(self, status: str = "", **more) -> None:
        """All batches end; `status`: OpenAI's, if it is another than completed."""
        with self._lock:
            for batch in self.batches.values():
                batch["ended"] = status or "ended"
                batch.update(more)

    def looks(self) -> int:
        return sum(
            method == "GET" and "/batches/" in path and not path.endswith("/results")
            for method, path in self.requests
        )

    def take(self, method: str, path: str, headers: dict, content: bytes) -> tuple[int, bytes]:
        with self._lock:
            self.requests.append((method, path))
            if self.refusals:
                status, body = self.refusals.pop(0)
                return status, json.dumps(body).encode()
            answered = self._answer(method, path, headers, content)
        return 200, answered if isinstance(answered, bytes) else json.dumps(answered).encode()

    def _answer(self, method, path, headers, content):
        if path.endswith("/files"):
            boundary = re.search("boundary=(.*)", headers["content-type"])[1]
            _, purpose, file, end = content.decode().split("--" + boundary)
            assert purpose.split("\r\n\r\n")[1].strip() == "batch", purpose
            assert 'filename="' in file and end.strip() == "--", content
            name = f"file-{len(self.files)}"
            self.files[name] = file.split("\r\n\r\n", 1)[1].strip()
            return {"id": name, "object": "file"}
        if path.endswith("/content"):
            return self.files[path.split("/")[-2]].encode()
        if path.endswith("/v1/batches"):
            told = json.loads(content)
            calls = [json.loads(line) for line in self.files[told["input_file_id"]].splitlines()]
            assert all(call["url"] == told["endpoint"] for call in calls), calls
            return self._begin({call["custom_id"]: call["body"] for call in calls}, "openai")
        if path.endswith("/messages/batches"):
            calls = json.loads(content)["requests"]
            return self._begin({call["custom_id"]: call["params"] for call in calls}, "anthropic")
        if path.endswith("/results"):
            return self._results(self.batches[path.split("/")[-2]])
        return self._state(path.split("/")[-1])

    def _begin(self, calls, dialect):
        assert not any("stream" in body for body in calls.values()), calls
        name = f"batch_{len(self.batches)}"
        self.calls += calls.values()
        ended = "ended" if self.ends_at_once else ""
        self.batches[name] = {"calls": calls, "dialect": dialect, "ended": ended}
        return {"id": name}

    def _state(self, name):
        batch = self.batches[name]
        if batch["dialect"] == "anthropic":
            return {"id": name, "processing_status": "ended" if batch["ended"] else "in_progress"}
        if not batch["ended"]:
            return {"id": name, "status": "in_progress", "output_file_id": None}
        status = "completed" if batch["ended"] == "ended" else batch["ended"]
        told = {"id": name, "status": status, "errors": batch.get("errors")}
        if status != "failed":
            self.files["results-" + name] = self._results(batch).decode()
            told["output_file_id"] = "results-" + name
        return told

    def _results(self, batch):
        lines = [
            {"custom_id": name, **self._result(body, batch["dialect"])}
            for name, body in reversed(batch["calls"].items())
            if self.answer(body) is not ABSENT
        ]
        return "".join(json.dumps(line) + "\n" for line in lines).encode()

    def _result(self, body, dialect):
        answer, model = self.answer(body), body["model"]
        reply = Reply(text=answer)
        if dialect == "openai":
            if answer is EXPIRED:
                return {"response": None, "error": {"code": "batch_expired", "message": "late"}}
            if answer is ERRORED:
                said = {"error": {"type": "invalid_request_error", "message": "no such model"}}
                return {"response": {"status_code": 400, "body": said}, "error": None}
            whole = openai_whole(reply, model, [answer] * int(body.get("n") or 1))
            return {"response": {"status_code": 200, "body": whole}, "error": None}
        if answer is EXPIRED:
            return {"result": {"type": "expired"}}
        if answer is ERRORED:
            said = {"type": "invalid_request_error", "message": "no such model"}
            return {"result": {"type": "errored", "error": {"type": "error", "error": said}}}
        message = {
            "type": "message",
            "model": model,
            "content": [{"type": "text", "text": answer}],
            "stop_reason": "end_turn",
            "usage": anthropic_usage(reply.usage) | {"output_tokens": reply.usage["output"]},
        }
        return {"result": {"type": "succeeded", "message": message}}


def prompt_of(body: dict) -> str:
    """All texts of a call's messages."""
    return "\n".join(texts_in(body.get("system", "")) + texts_in(body.get("messages", [])))


__all__ = ["ABSENT", "ERRORED", "EXPIRED", "LlmBatches", "prompt_of"]
