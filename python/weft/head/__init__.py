"""A service that searches kernels for programs of other machines (`weft head`)."""
