"""A piece of network between two processes of one machine: passes TCP on, late
or slowly if that is asked for, and can hang or be cut."""

import collections
import contextlib
import socket
import threading
import time

PIECE_BYTES = 16_384


class Relay:
    """Listens on a port of its own and passes everything on to `port`.

    delay_s is added to each direction; bytes_per_s limits each direction.
    """

    def __init__(self, port, delay_s=0.0, bytes_per_s=None):
        self._target = ("127.0.0.1", port)
        self._delay_s = delay_s
        self._bytes_per_s = bytes_per_s
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._sockets = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._spawn(self._accept)

    def hang(self):
        """Nothing passes any more, and nobody is told: a cable is pulled."""
        self._flows.clear()

    def flow(self):
        self._flows.set()

    def cut(self):
        """All connections of now are reset; new ones may be made."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def close(self):
        self._listener.close()
        self._flows.set()
        self.cut()

    def _spawn(self, work, *arguments):
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()  # nobody is there
                continue
            with self._lock:
                self._sockets |= {near, far}
            self._pass(near, far)
            self._pass(far, near)

    def _pass(self, source, sink):
        pieces = collections.deque()
        ready = threading.Condition()
        self._spawn(self._take, source, pieces, ready)
        self._spawn(self._give, sink, pieces, ready)

    def _take(self, source, pieces, ready):
        piece = b"-"
        while piece:
            try:
                piece = source.recv(PIECE_BYTES)
            except OSError:
                piece = b""
            if piece and self._bytes_per_s:
                time.sleep(len(piece) / self._bytes_per_s)
            with ready:
                pieces.append((time.monotonic() + self._delay_s, piece))
                ready.notify()

    def _give(self, sink, pieces, ready):
        while True:
            with ready:
                ready.wait_for(lambda: pieces)
                due, piece = pieces.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            self._flows.wait()
            try:
                if not piece:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(piece)
            except OSError:
                return
