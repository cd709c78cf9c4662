"""`weft run --mode both`: kernels for a model in eval and in train mode."""
