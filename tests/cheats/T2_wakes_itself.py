"""T2: a timer of its own wakes it from its stop, and its threads burn the
processor while eager is timed.

Reference: slow
Expect: rejected cheated
Reason: ran while it was stopped
"""

import ctypes
import signal
import threading

import torch
import torch.nn as nn

libc = ctypes.CDLL(None, use_errno=True)


class SignalEvent(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int),
                ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]


class Times(ctypes.Structure):
    _fields_ = [("every_s", ctypes.c_long), ("every_ns", ctypes.c_long),
                ("first_s", ctypes.c_long), ("first_ns", ctypes.c_long)]


timer = ctypes.c_void_p()
libc.timer_create(1, ctypes.byref(SignalEvent(None, signal.SIGCONT, 0, b"")),
                  ctypes.byref(timer))


def wake_in(ns):
    libc.timer_settime(timer, 0, ctypes.byref(Times(0, 0, 0, ns)), None)


burns = threading.Event()
numbers = torch.rand(4096)


def burn():
    while True:
        burns.wait()
        torch.sin(numbers)


threading.Thread(target=burn, daemon=True).start()


class ModelNew(nn.Module):
    def forward(self, x):
        burns.clear()
        for _ in range(4):
            x = torch.tanh(x) + torch.sin(2 * x)
        wake_in(4_000_000)
        threading.Timer(0.003, burns.set).start()
        return torch.softmax(x, dim=-1)
