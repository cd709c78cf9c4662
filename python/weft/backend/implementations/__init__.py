"""Implementations of a graph's calls, and the measurements that select one."""
