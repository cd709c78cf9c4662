"""Runs in the sandbox: the zygote, and how it loads and calls a kernel or a module."""
