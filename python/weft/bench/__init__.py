"""`weft bench`: many problems, each as a separate run, and the results
(docs/how-to/kernelbench.md). The driver starts runs; everything else works on the files
that they leave."""
