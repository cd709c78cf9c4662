"""From a problem file to the graph that the compiler reads."""
