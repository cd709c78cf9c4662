"""Searches for kernels: runs of the weft program, and what they found earlier."""
