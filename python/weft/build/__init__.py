"""Builds of kernels: Triton ahead of time, CUDA through NVRTC, and their stand-ins."""
