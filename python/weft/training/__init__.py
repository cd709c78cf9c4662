"""`weft run --train`: kernels for a model's forward and backward pass."""
