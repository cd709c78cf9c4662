"""The scripted language model (llm_server.py) over HTTP/2, which is the `h2`
package's work: a real state machine of the protocol, on a TLS socket that
offers `h2` alone.

    with Http2Server(answer, certificate) as server:
        ... base_url = server.openai_url ...
        server.calls, server.connections, server.at_once_max
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
from llm_server import EVENTS, Call, Reply, dialect_of, error_body, texts_in


class Http2Server:
    """Serves from a thread of its own between __enter__ and __exit__. `gather`:
    so many calls are waited for before any is answered, for a while."""

    PATIENCE_S = 20

    def __init__(self, answer, certificate: tuple[str, str], gather: int = 1):
        self.answer, self.gather = answer, gather
        self.calls: list[Call] = []
        self.connections = 0
        self.at_once = 0
        self.at_once_max = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*certificate)
        self._context.set_alpn_protocols(["h2"])
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def openai_url(self) -> str:
        return f"https://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Http2Server:
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
        self._stop, self._enough = asyncio.Event(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, ssl=self._context)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader, writer):
        self.connections += 1
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        requests: dict[int, tuple[dict, bytearray]] = {}
        while data := await reader.read(1 << 16):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    headers = {name.decode(): value.decode() for name, value in event.headers}
                    requests[event.stream_id] = headers, bytearray()
                elif isinstance(event, h2.events.DataReceived):
                    requests[event.stream_id][1].extend(event.data)
                    connection.acknowledge_received_data(
                        event.flow_controlled_length, event.stream_id
                    )
                elif isinstance(event, h2.events.StreamEnded):
                    asyncio.ensure_future(
                        self._request(
                            connection, writer, event.stream_id, *requests.pop(event.stream_id)
                        )
                    )
            writer.write(connection.data_to_send())
            await writer.drain()
        writer.close()

    async def _request(self, connection, writer, stream, headers, bytes_):
        body = json.loads(bytes(bytes_))
        texts = texts_in(body.get("messages", []))
        call = Call(
            len(self.calls) + 1,
            dialect_of(headers[":path"]),
            headers[":path"],
            headers,
            body,
            "\n".join(texts),
            time.monotonic(),
        )
        self.calls.append(call)
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await self._gathered()
        reply = self.answer(call)
        if not isinstance(reply, Reply):
            reply = Reply(text=reply)
        if reply.status == 200:
            kind = "text/event-stream"
            pieces = EVENTS[call.dialect](reply, "scripted", [reply.text])
        else:
            kind = "application/json"
            pieces = [json.dumps(error_body(call.dialect, reply.status, reply.error)).encode()]
        connection.send_headers(
            stream,
            [
                (":status", str(reply.status)),
                ("content-type", kind),
                *((name.lower(), value) for name, value in reply.headers.items()),
            ],
        )
        if reply.cut:
            pieces = pieces[: len(pieces) // 2]
        for piece in pieces:
            connection.send_data(stream, piece)
            writer.write(connection.data_to_send())
            await asyncio.sleep(0)  # streams share the connection
        if reply.cut:
            connection.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
        else:
            connection.end_stream(stream)
        self.at_once -= 1
        writer.write(connection.data_to_send())
        await writer.drain()

    async def _gathered(self):
        if self.at_once_max >= self.gather:
            self._enough.set()
        try:
            await asyncio.wait_for(self._enough.wait(), self.PATIENCE_S)
        except asyncio.TimeoutError:
            pass  # the test sees how many came
