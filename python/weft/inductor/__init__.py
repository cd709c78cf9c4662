"""TorchInductor as a source of kernels: its code, as a file that stands alone."""
