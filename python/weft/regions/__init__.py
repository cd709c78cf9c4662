"""Regions of a decomposed ATen graph: which there are, what time they take, and how a
kernel is inserted for one."""
