"""Runs a whole module in a job's child: ModelNew, or the Model it replaces.

A call names steps. `load` takes inputs and state from shared memory. `run` is forward() and
nothing else, `warm` the same on inputs that were there before. `ran` reports whether a
composed module's kernels ran. `row` runs forward() `calls` times. `export` copies results
out and describes them. `hold` keeps them while others are made, and `recall` copies out
what the `held`th of these are by then. `drawn` reports the state of random numbers. A
`load` may come with `number`: another value for one leaf of the arguments that is no
tensor.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree

from weft.build import build_folders, triton_interpreter
from weft.problem import (
    attribute_buffers,
    function_model,
    operator_trace,
    sentences,
)
from weft.candidate.mapped_tensors import tensor_at
from weft.problem.result_form import (
    NEW_MODULE,
    OutputForm,
    describe,
    fits,
    lie,
    tensor_leaves,
)
from weft.problem.module_state import (
    HeldState,
    described_state,
    fill,
    laid_out,
    rng_digest,
    write,
)
from weft.problem.problem import (
    build_model,
    init_arguments,
    load_problem,
    made_on,
    moved,
    put_in_mode,
)

if TYPE_CHECKING:
    from weft.candidate.harness import SharedMemory
    from weft.device.clock import DeviceClock
    from weft.device.device_arena import SharedDeviceMemory

#: What a composed module calls it (compiler/compose/pass_on_source.cpp).
PASSED_ON = "_weft_passed_on"


def load(job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> ModelRunner:
    """The runner for kind `model` or `model_reference`."""
    if memory.driver is not None:
        # Before the candidate's code runs: what names no device means this.
        torch.cuda.set_device(memory.device)
    if job["kind"] == "model":
        model = _build_candidate(job, memory.device)
        return ModelRunner(job, memory, model)
    if job["kind"] == "model_reference":
        problem = load_problem(job["problem"], job["mode"])
        model = build_model(problem, device=memory.device)
        return ModelRunner(job, memory, model)
    raise ValueError(f"unknown kind {job['kind']!r}")


def _build_candidate(job: dict[str, Any], device: torch.device) -> torch.nn.Module:
    """ModelNew(*get_init_inputs()), seeded as KernelBench does."""
    for name in build_folders.VARIABLES:
        os.environ.setdefault(name, job["kernel_cache"])
    triton_interpreter.mend()
    spec = importlib.util.spec_from_file_location(NEW_MODULE, job["module"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NEW_MODULE] = module
    spec.loader.exec_module(module)
    if "function_of" in job:
        setattr(module, "ModelNew", function_model.around(module, job["function_of"]))
    if job["init"] is not None:
        with open(job["init"], "rb") as file:
            args, kwargs = moved(pickle.load(file), device)
    else:  # arguments that cannot be pickled: the module makes its own
        torch.manual_seed(job["seed"])
        given = module.get_init_inputs()
        args, kwargs = moved(init_arguments(module.ModelNew, given), device)
    torch.manual_seed(job["seed"])
    with made_on(device):
        model_new = module.ModelNew(*args, **kwargs)
    put_in_mode(model_new, job["mode"])
    for name in job["adopted"]:
        attribute_buffers.adopt_named(model_new, name)
    return model_new if device.type == "cpu" else model_new.to(device)


class ModelRunner:
    """One module, with its inputs and state in shared memory."""

    def __init__(
        self, job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory, model: torch.nn.Module
    ) -> None:
        self._driver = memory.driver
        self._clock: DeviceClock | None = None
        if memory.driver is not None:
            from weft.device.clock import clock_of

            self._clock = clock_of(memory.driver)
        self._device = memory.device
        self.described: dict[str, Any] = {"rng": rng_digest(memory.device)}
        self._forwards = {"eager": model}
        self._state = HeldState(model)
        self.described["state"] = described_state(self._state.named)
        self.described["training"] = [m.training for m in model.modules()]
        places = job["places"]
        tensors = {key: [tensor_at(memory, p) for p in places[key]] for key in places}
        self._places = tensors
        self._template = job["inputs"]  # leaves: a place's number, or a value
        self._treespec = pytree.treespec_loads(job["treespec"])
        self._wants = [OutputForm(**one) for one in job["outputs"]]
        self._result: Any = None
        self._kept: list[Any] = []
        self._leaves: list[Any] = []
        self._lain: list[Any] = []
        if self.described["state"] == job["state"]:
            self._put_state()

    def run(self, call: dict[str, Any]) -> dict[str, Any]:
        answer = {"ns": 0}
        for step in call["steps"]:
            answer.update(getattr(self, "_" + step)(call))
        if self._driver is not None:
            # What went wrong on the device is told here; and what it still
            # does would else go on while this process stands still.
            self._driver.synchronize()
        return answer

    def _load(self, call: dict[str, Any]) -> dict[str, Any]:
        self._take_state(call["parameters"])
        if not (call.get("reuse") and self._refill()):
            self._leaves = [
                laid_out(self._places["inputs"][leaf["place"]], leaf["stride"])
                if "place" in leaf
                else leaf["value"]
                for leaf in self._template
            ]
            if "number" in call:
                self._leaves[call["number"]["leaf"]] = call["number"]["value"]
            self._args = pytree.tree_unflatten(self._leaves, self._treespec)
            self._lain = list(map(lie, self._given()))
        self._result = None
        if call["seed"] is not None:  # else it goes on to draw
            torch.manual_seed(call["seed"])
        return {}

    def _take_state(self, parameters: bool) -> None:
        self._state.rewind()
        for (_, tensor), place in zip(self._state.named, self._places["state"]):
            if parameters or not isinstance(tensor, torch.nn.Parameter):
                # Not through .data: weights prepared ahead follow `_version`.
                with torch.no_grad():
                    fill(tensor, place)

    def _refill(self) -> bool:
        """New contents in the tensors of the call before, which look untouched:
        neither address nor `_version` tells. False: they no longer fit."""
        for tensor, leaf in zip(self._leaves, self._template):
            if "place" not in leaf:
                continue
            place = self._places["inputs"][leaf["place"]]
            stride = leaf["stride"] or list(place.stride())
            if tensor.shape != place.shape or list(tensor.stride()) != stride:
                return False
            write(tensor.data, place)
        return bool(self._leaves)

    def _warm(self, call: dict[str, Any]) -> dict[str, Any]:
        """forward() on the inputs of the call before, if they are held."""
        if self._leaves:
            self._take_state(False)  # the last call may have used it up
            self._forward(self._forwards[call.get("function", "eager")])
            self._result = None
        return {}

    def _trace(self, call: dict[str, Any]) -> dict[str, Any]:
        """forward() once, and which of the framework's operators it called."""
        self._result, called = operator_trace.run(self._forwards["eager"], self._args)
        return {"operators": called}

    def _run(self, call: dict[str, Any]) -> dict[str, Any]:
        function = call.get("function", "eager")
        forward = self._forwards.get(function)
        if forward is None:
            try:
                return self._compile(function)
            except Exception as error:  # whatever the compiler may raise
                text = f"{type(error).__name__}: {error}"
                return {"compile_error": sentences.whole_lines(text, 2000)}
        if call.get("flush"):
            assert self._clock is not None, "only a device has caches to flush"
            return self._clock.time([partial(self._forward, forward)], waits=True)
        start = time.perf_counter_ns()
        self._forward(forward)
        return {"ns": time.perf_counter_ns() - start}

    def _row(self, call: dict[str, Any]) -> dict[str, Any]:
        """forward() so many times, as a loop of a person's calls it; `reads`:
        with each result copied out, whose layout an earlier export checked."""
        forward = self._forwards[call.get("function", "eager")]
        reads = call.get("reads", False)
        for _ in range(call["calls"]):
            self._forward(forward)
            if reads:
                self._put_results(self._result)
        return {}

    def _ran(self, call: dict[str, Any]) -> dict[str, Any]:
        """Why a composed module's last forward() ran none of its kernels; ""
        where it did, and of any other module. It is asked after `run`."""
        module = sys.modules.get(NEW_MODULE)
        told = getattr(module, PASSED_ON, "")
        if type(told) is not str:  # another's __str__ would work here
            return {"passed_on": f"{PASSED_ON} is no text"}
        if told:
            setattr(module, PASSED_ON, "")
        return {"passed_on": sentences.whole_lines(told, 300)}

    def _forward(self, forward: Callable[..., Any]) -> None:
        self._result = forward(*self._args)

    def _rest(self, call: dict[str, Any]) -> dict[str, Any]:
        """Gives up results and inputs, and the memory that they took."""
        from weft.candidate.baseline import rest

        self._result, self._args, self._leaves = None, None, []
        return rest(self._driver)

    def _drawn(self, call: dict[str, Any]) -> dict[str, Any]:
        return {"drawn": rng_digest(self._device)}

    def _hold(self, call: dict[str, Any]) -> dict[str, Any]:
        self._kept.append(self._result)
        return {}

    def _recall(self, call: dict[str, Any]) -> dict[str, Any]:
        self._put_results(self._kept[call["held"]])
        return {}

    def _compile(self, name: str) -> dict[str, Any]:
        from weft.candidate.baseline import first_calls

        with first_calls(name, self._driver) as compiled_as:
            compiled = compiled_as(self._forwards["eager"])
            self._result = compiled(*self._args)
        self._forwards[name] = compiled
        return {}

    def _given(self) -> list[torch.Tensor]:
        return [t for t in self._leaves if isinstance(t, torch.Tensor)]

    def _export(self, call: dict[str, Any]) -> dict[str, Any]:
        """Results to shared memory, if they fit; and what they look like."""
        held = self._given()
        form = describe(self._result, held, self._lain, self._state.named, self._state.now())
        if not form.outputs or fits(form, self._wants):
            self._put_results(self._result)
        for tensor, place in zip(held, self._places["inputs_after"]):
            place.copy_(tensor)
        self._put_state()
        return form.to_json()

    def _put_results(self, result: Any) -> None:
        for tensor, place in zip(tensor_leaves(result), self._places["outputs"]):
            place.copy_(tensor)

    def _put_state(self) -> None:
        for tensor, place in zip(self._state.now(), self._places["state_after"]):
            place.copy_(tensor)
