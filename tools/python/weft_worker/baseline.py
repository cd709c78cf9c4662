"""The framework's side of a timing: the reference, eager and compiled.

Runs in the same kind of child, over the same protocol, as the candidate, so
that what the way there and back costs is the same for both.
"""

import time

import torch

from .reference import Reference, load_graph


class ReferenceRunner:
    """The reference of a subgraph; reads its inputs from shared memory."""

    described = {}

    def __init__(self, job, memory):
        self._functions = {"eager": Reference(load_graph(job["graph"])).function()}
        self._inputs = [
            [memory.tensor(place) for place in buffers["inputs"]]
            for buffers in job["sets"]
        ]

    def run(self, call):
        if call["function"] not in self._functions:
            try:
                self._compile()
            except Exception as error:  # whatever the compiler may raise
                text = f"{type(error).__name__}: {error}"
                return {"ns": 0, "compile_error": text[:2000]}
        function = self._functions[call["function"]]
        calls = [self._inputs[i] for i in call["sets"]]
        start = time.perf_counter_ns()
        for inputs in calls:
            function(*inputs)
        return {"ns": time.perf_counter_ns() - start}

    def _compile(self):
        import torch._inductor.config as settings

        settings.compile_threads = 1
        torch._dynamo.reset()
        compiled = torch.compile(self._functions["eager"], dynamic=False)
        compiled(*self._inputs[0])
        self._functions["compile"] = compiled
