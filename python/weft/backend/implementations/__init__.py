"""What may compute a graph's calls, and the measurements that select one."""
