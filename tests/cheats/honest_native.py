"""honest: a C++ kernel, built where a candidate may build, called by ctypes.

Reference: relu
Expect: accepted
Gpu: host: its kernel is C++ for host memory
Operators: none
"""

import ctypes
import os
import subprocess

import torch
import torch.nn as nn

SOURCE = """
#include <cmath>
extern "C" void relu(const float* x, float* y, long n) {
  for (long i = 0; i < n; i++) y[i] = x[i] > 0 || std::isnan(x[i]) ? x[i] : 0;
}
"""


def build():
    folder = os.environ["WEFT_KERNEL_CACHE"]
    source = os.path.join(folder, "relu.cpp")
    library = os.path.join(folder, "relu.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    words = ["g++", "-O2", "-shared", "-fPIC", source, "-o", library]
    subprocess.run(words, check=True)
    return ctypes.CDLL(library)


library = build()


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, y)]
        library.relu(*pointers, ctypes.c_long(x.numel()))
        return y
