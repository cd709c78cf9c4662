"""O9: a kernel that asks for more shared memory than there is never runs.

Reference: product
Expect: rejected wrong crashed
"""

import ctypes

import torch
import torch.nn as nn

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry fill(.param .u64 out) { ret; }
"""


class ModelNew(nn.Module):
    def forward(self, a, b):
        result = torch.empty_like(a)
        driver = ctypes.CDLL("libcuda.so.1")
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        driver.cuModuleLoadData(ctypes.byref(module), PTX)
        driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"fill")
        pointer = ctypes.c_void_p(result.data_ptr())
        slots = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
        shape = (1, 1, 1, 32, 1, 1, 1 << 20)
        driver.cuLaunchKernel(kernel, *shape, None, slots, None)
        return result
