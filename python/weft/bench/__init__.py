"""`weft bench`: many problems, each as a run of its own, and what came of them
(docs/how-to/kernelbench.md). The driver starts runs; everything else works on the files
that they leave."""
