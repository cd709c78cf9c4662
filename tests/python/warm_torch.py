"""PyTorch, loaded once for all suites, which takes two seconds of a processor: a
process that has it forks one for each suite that run_suite.py begins.

    python warm_torch.py PLACE        begins it, in the background
    python warm_torch.py PLACE end    ends it, as does a while without a suite

PLACE is the socket where it is asked. It computes nothing itself. Where it is not
to be had, a suite loads PyTorch as any program: nothing depends on it.
"""

import contextlib
import json
import os
import random
import selectors
import signal
import socket
import sys

IDLE_S = 300.0
#: What comes before a message: how many bytes it has.
SIZE = b"%9d"


def ask(place, suite):
    """The exit code of a suite that a warm process ran, or None: none did."""
    if not place:
        return None
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(place)
            told = json.dumps([suite, os.getcwd(), dict(os.environ)]).encode()
            socket.send_fds(link, [SIZE % len(told)], [0, 1, 2])
            link.sendall(told)
            answer = link.makefile().read()
        except OSError:
            return None
    begun, _, code = answer.partition(" ")
    return int(code or 1) if begun else None


class Server:
    def __init__(self, listener):
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, self.begin)

    def serve(self):
        """Returns the suite's name in the process that shall run it; None when
        nobody asks any more."""
        places = self.selector.get_map()
        while True:
            ready = self.selector.select(IDLE_S)
            if not ready and len(places) == 1:
                return None
            for key, _ in ready:
                # Another of this turn may have been its end already.
                if places.get(key.fileobj) == key:
                    suite = key.data(key.fileobj)
                    if suite is not None:
                        return suite

    def close(self):
        """All that it has open, by whom it belongs to: what is closed by its number
        alone is closed once more when its owner goes, and is another's by then."""
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, int):
                os.close(key.fileobj)
            else:
                key.fileobj.close()
        self.selector.close()

    def begin(self, listener):
        """Returns the suite's name in the process that is forked for it; an empty
        one, where it is told to end."""
        link, _ = listener.accept()
        try:
            size, fds, _, _ = socket.recv_fds(link, len(SIZE % 0), 3)
            if size == SIZE % 0:
                return ""
            told = link.recv(int(size or 0), socket.MSG_WAITALL)
        except OSError:
            told = b""
        if not told or len(told) < int(size):  # it is gone already
            link.close()
            return None
        pid = os.fork()
        if pid == 0:
            self.close()
            link.close()
            return become(fds, *json.loads(told))
        with contextlib.suppress(PermissionError):  # it has done so itself
            os.setpgid(pid, pid)
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(OSError):  # it is gone: its end is seen below
            link.sendall(b"begun ")
        watch = os.pidfd_open(pid)

        def end(_):
            """It has ended, or nobody waits for it any more."""
            self.selector.unregister(link)
            self.selector.unregister(watch)
            with contextlib.suppress(OSError):  # none is left
                os.killpg(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(watch)
            with contextlib.suppress(OSError):
                link.sendall(b"%d" % code)
            link.close()

        self.selector.register(link, selectors.EVENT_READ, end)
        self.selector.register(watch, selectors.EVENT_READ, end)
        return None


def become(fds, suite, folder, variables):
    """What run_suite.py would be that asked for it."""
    os.setpgid(0, 0)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    random.seed()
    return suite


def main():
    place, *end = sys.argv[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as link:
        link.connect(place)  # one that is there
        link.sendall(SIZE % 0)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place)
    if end:
        return
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(place)
    except OSError as error:  # as a path that is too long
        print(f"suites load PyTorch themselves: {error}")
        return
    listener.listen(64)
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    import run_suite  # for what it sets before PyTorch is loaded
    import torch  # noqa: F401

    if suite := Server(listener).serve():
        run_suite.run(suite)


if __name__ == "__main__":
    main()
