"""Memory, clocks and locks of processors and GPUs."""
