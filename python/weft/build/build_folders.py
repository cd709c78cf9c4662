"""Variables that say where a candidate's kernels are built: nothing else in the
sandbox can be written to."""

VARIABLES = (
    "WEFT_KERNEL_CACHE",
    "TORCH_EXTENSIONS_DIR",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
)
