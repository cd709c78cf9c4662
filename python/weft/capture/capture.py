"""Captures a problem's model as a graph: `python -m weft.capture.capture`.

Writes docs/reference/graph.md's JSON and prints one JSON line: {"ok": true, "nodes": 12,
"seconds": {…}}, or without a file {"ok": false, "error": {"code", "kind", "message",
"file", "line", "details"}}. Exit code 0 or 1. `code` is wrong_input, missing (no torch, or
one older than 2.6) or failed; `line` is 0 if no line of the file is at fault. The caller
must end a model that never returns: this process has no clock.

The graph must do what eager does. If its strides differ, an output gets one copy at the
end. For other values, an error, or an operator without ATen form, the exported program runs
call by call, next to each call's decomposition, and calls that differ stay undecomposed. If
two eager calls differ, or forward() reads and changes Python state, the model is refused.
Otherwise the message says "internal error": the fault is weft's.

Several problems are captured one after the other, up to the first that fails. A fork of
this process, which has PyTorch already, captures each and prints its line.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import inspect
import json
import logging
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from weft.capture import imports, input_memory
from weft.capture.tracer_lock import tracing
from weft.device import garbage
from weft.problem import problem as problems, sentences
from weft.problem.problem import Problem, ProblemError

if TYPE_CHECKING:
    import torch

    from weft.device.gpu_lock import DeviceLock, NoLock

#: Inputs of more are large: beside them lie results, twice.
LARGE_BYTES = 1 << 30
#: So long at most others wait for a model that may never return.
SHARE_S, ROOM_S = 60.0, 300.0


def main(tell: Callable[[dict[str, Any]], object], arguments: list[str] | None = None) -> bool:
    """Whether all were captured; tell() gets the reply of each."""
    parser = argparse.ArgumentParser(
        prog="weft.capture.capture", description="Capture a model as a graph."
    )
    parser.add_argument(
        "--problem",
        required=True,
        action="append",
        help="a problem file; may be there several times",
    )
    parser.add_argument(
        "--out", required=True, action="append", help="the graph to write, of each in order"
    )
    parser.add_argument(
        "--seconds", type=float, default=0, help="of several, what each may take (0: no limit)"
    )
    parser.add_argument("--device", default="cpu", help="where the model runs: cpu or cuda:0")
    parser.add_argument(
        "--mode",
        default="as-is",
        choices=problems.MODES,
        help="the model's (default: its constructor's)",
    )
    options = parser.parse_args(arguments)
    if len(options.problem) != len(options.out):
        parser.error("each --problem has an --out")
    faulthandler.enable()  # a process that dies of a fault says where
    is_alone = len(options.problem) == 1
    if not is_alone:
        load_exporter()
    for number, paths in enumerate(zip(options.problem, options.out)):
        work = functools.partial(
            reply_of, *paths, options.device, options.mode, is_first=number == 0
        )
        reply = work() if is_alone else by_a_copy(work, options.seconds)
        tell(reply)
        if not reply["ok"]:
            return False
    return True


def load_exporter() -> None:
    """What each copy would load: two of the two and a half seconds that a small
    model's capture takes. Nothing is computed, nor a GPU looked at: copies of a
    process that did either would have only half of what it began."""
    asks = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(asks)
    os.environ[asks] = "1"  # whether there is a GPU, without beginning its driver
    with contextlib.suppress(Exception):  # which the copies will say
        problems.import_torch()
        import torch.export._trace  # noqa: F401
    os.environ.pop(asks)
    if before is not None:
        os.environ[asks] = before


def by_a_copy(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """work()'s reply, by a fork of this process, so that no model finds in memory
    what another one left. Where that dies, this process ends likewise: by SIGALRM,
    if it took longer than so many seconds."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as told:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            _answer(work, told)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(OSError):  # processes that the model left
            os.killpg(child, signal.SIGKILL)
        if code < 0:
            faulthandler.disable()  # it was said where
            os.kill(os.getpid(), -code)
            os._exit(128 - code)
        if code != 0:
            os._exit(code)
        told.seek(0)
        return json.load(told)


def _answer(work: Callable[[], dict[str, Any]], told: TextIO) -> NoReturn:
    """Ends the process, and with it the threads of the model's."""
    code = 1
    try:
        json.dump(work(), told)
        told.flush()
        code = 0
    except BaseException:  # as a model's sys.exit()
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def reply_of(
    problem_path: str, out: str, device: str = "cpu", mode: str = "as-is", is_first: bool = True
) -> dict[str, Any]:
    """Captures, and says in one object how it went. Never raises. `is_first`: not
    the same model as one before it at other sizes, of which the exporter has said
    what it asks of them. Captures of two threads come one after the other."""
    try:
        with tracing:  # it seeds the generator of random numbers, and changes PyTorch
            graph, seconds = capture(problem_path, device, mode, is_first)
        with writing(out):
            from weft.capture.graph import write_json

            write_json(graph, out)
        with open(problem_path, encoding="utf-8") as file:
            keeps = imports.takes_little(file.read())
        return {"ok": True, "nodes": len(graph["nodes"]), "seconds": seconds, "keeps": keeps}
    except ProblemError as error:
        return {"ok": False, "error": error.to_json()}
    except Exception as error:
        kind = "out_of_memory" if problems.is_out_of_memory(error) else "bug"
        what = f"capture failed with {sentences.of_error(error)}"
        return {
            "ok": False,
            "error": ProblemError(
                kind,
                f"{what}; make the problem's sizes smaller"
                if kind == "out_of_memory"
                else problems.internal_error(what),
                code="failed",
                details=traceback.format_exc(),
            ).to_json(),
        }


@contextlib.contextmanager
def writing(out: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ProblemError(
            "cannot_write",
            f"cannot write {out}: {error.strerror}; check the disk and its permissions",
            code="failed",
        ) from None


class Stopwatch:
    """Seconds of each step, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            spent = self.seconds.get(name, 0.0) + time.perf_counter() - begin
            self.seconds[name] = round(spent, 4)


def capture(
    problem_path: str, device: str = "cpu", mode: str = "as-is", is_first: bool = True
) -> tuple[dict[str, Any], dict[str, float]]:
    """(graph, seconds by step); ProblemError says what is wrong."""
    watch = Stopwatch()
    with watch.step("import_torch"):
        problems.import_torch()
        place = place_of(device)
    with warnings.catch_warnings():
        # The exporter talks about its own internals; nothing to act on.
        warnings.simplefilter("ignore")
        logging.getLogger("torch").setLevel(logging.CRITICAL)
        with contextlib.closing(lock_of(place)) as lock:
            graph = with_room(
                lambda: capture_steps(problem_path, watch, place, lock, mode, is_first),
                parts_for(problem_path, place),
                lock,
            )
    return graph, watch.seconds


def lock_of(place: torch.device) -> DeviceLock | NoLock:
    """Of the place's device: others may be timed there."""
    from weft.device import cuda_driver, gpu_lock

    if place.type != "cuda":
        return gpu_lock.lock_of(None)
    try:
        return gpu_lock.lock_of(cuda_driver.open_driver(place.index or 0))
    except OSError:  # nobody else is here yet
        return gpu_lock.NoLock()


def parts_for(problem_path: str, place: torch.device) -> int:
    """Of a GPU's memory (gpu_lock.py), for a model with large inputs."""
    size = input_bytes(problem_path) if place.type == "cuda" else 0
    if size <= LARGE_BYTES:
        return 0
    import torch

    from weft.device import gpu_lock

    memory = torch.cuda.get_device_properties(place).total_memory
    return gpu_lock.parts_of(memory, size)


def with_room(attempt: Callable[..., Any], parts: int, lock: DeviceLock | NoLock) -> Any:
    """attempt(), with so much room; once more with all there is, if others
    had left too little memory."""
    from weft.device import gpu_lock

    try:
        return in_room(attempt, parts, lock)
    except Exception as error:
        is_lack = getattr(error, "kind", "") == "out_of_memory" or problems.is_out_of_memory(error)
        has_all = parts == gpu_lock.ROOM_PARTS
        if not is_lack or has_all or isinstance(lock, gpu_lock.NoLock):
            raise
    # Here its frames are gone, and with them what they held.
    return in_room(attempt, gpu_lock.ROOM_PARTS, lock)


def in_room(attempt: Callable[..., Any], parts: int, lock: DeviceLock | NoLock) -> Any:
    if not parts:
        return attempt()
    import torch

    with lock.room(parts), lock.for_at_most(ROOM_S):
        try:
            return attempt()
        finally:
            torch.cuda.empty_cache()


def input_bytes(problem_path: str) -> int:
    """Of its inputs, by a look at them without their values; 0 where that
    cannot be had."""
    import torch
    from torch.utils import _pytree as pytree

    problem = problems.load_problem(problem_path)
    try:
        inputs = problems.make_inputs(problem, device=torch.device("meta"))
    except Exception:  # e.g. get_inputs() looks at its values
        return 0
    return sum(leaf.nbytes for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor))


def place_of(device: str) -> torch.device:
    """The torch.device of that name; ProblemError if it is not here."""
    import torch

    from weft.device.device import parse

    try:
        place = parse(device)
    except ValueError as error:
        raise ProblemError("no_device", str(error)) from None
    if place.type == "cuda" and place.index >= torch.cuda.device_count():
        raise ProblemError(
            "no_device",
            f"PyTorch finds no device {device}: capture on the "
            "cpu, or install a PyTorch for this driver",
            code="missing",
        )
    return place


def capture_steps(
    problem_path: str,
    watch: Stopwatch,
    place: torch.device,
    lock: DeviceLock | NoLock,
    mode: str = "as-is",
    is_first: bool = True,
) -> dict[str, Any]:
    """The graph; the device is used with a share of its lock."""
    from weft.capture import export as capture_export, matching, symbolic_sizes
    from weft.problem import attribute_state

    @contextlib.contextmanager
    def on_device() -> Iterator[None]:
        with lock.shared(), lock.for_at_most(SHARE_S):
            yield
            settle(place)

    with on_device():
        with watch.step("load"):
            problem = problems.load_problem(problem_path, mode)
            model = problems.build_model(problem, device=place)
            attribute_state.write_back(problem, model)
        with watch.step("inputs"):
            inputs = problems.make_inputs(problem, device=place)
            problems.check_inputs_fit(problem, model, inputs)
            refuse_special(problem, model, inputs)
        state = State(problem, model, inputs, place)
        with watch.step("eager"):
            expected = state.eager_run()
            state.check_calls_in_a_row()
    with watch.step("export"):
        program = capture_export.export(problem, model, state.inputs)
        if is_first and symbolic_sizes.sizes_of(problem) is not None:
            symbolic_sizes.check(problem, model, state.inputs)
    return matching.matching_graph(state, program, expected, watch, on_device)


def refuse_special(problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> None:
    """ProblemError for an input or state that is no dense tensor."""
    from weft.problem import tensor_kinds

    bound = inspect.signature(model.forward).bind(*inputs)
    if found := tensor_kinds.first_special(model, bound.arguments):
        raise ProblemError(
            "unsupported",
            f"Model.forward cannot be captured: {found}, and weft compiles dense tensors only",
            file=problem.name,
            line=problems.first_line(model.forward, problem.path),
        )


def settle(place: torch.device) -> None:
    """Waits for what the device still does: it is others' turn then."""
    import torch

    if place.type == "cuda":
        torch.cuda.synchronize(place)


class State:
    """The model and its inputs as they were, so that two runs start alike.

    Large models fill the memory: inputs are made again, from their seed, only
    if forward() wrote into them, and outputs are copied only if a buffer's
    restoring would change them.
    """

    def __init__(
        self, problem: Problem, model: torch.nn.Module, inputs: list[Any], place: torch.device
    ) -> None:
        self.place = place
        self.problem = problem
        self.model = model
        self.inputs = inputs
        #: The records of model_attributes.py, once the model was run.
        self.parts: list[dict[str, Any]] = []
        self.buffers = dict(model.named_buffers())
        self.saved = {name: tensor.detach().clone() for name, tensor in self.buffers.items()}
        self.generators = generators(place)

    def restore(self) -> None:
        import torch

        from weft.problem.module_state import fill

        with torch.no_grad():
            for name, tensor in self.buffers.items():
                fill(tensor, self.saved[name])
        set_generators(self.place, self.generators)

    def eager_run(self) -> tuple[list[torch.Tensor], dict[str, Any], list[torch.Tensor]]:
        """(outputs, {target: value afterwards}, generators' states)."""
        import torch
        from torch.utils import _pytree as pytree

        from weft.capture import hidden_state, model_attributes
        from weft.problem import attribute_state

        before = input_memory.Written(self.inputs)
        set_generators(self.place, self.generators)
        with (
            hidden_state.refused(self.problem, self.model) as read,
            attribute_state.parameters_refused(self.problem, self.model),
        ):
            result = problems.run_forward(self.problem, self.model, self.inputs)
        self.parts = model_attributes.of(self.model, read)
        drawn = generators(self.place)
        buffers = {input_memory.storage(tensor) for tensor in self.buffers.values()}
        outputs = [
            leaf.detach() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)
        ]
        self.refuse_elsewhere(outputs)
        outputs = [
            leaf.clone() if input_memory.storage(leaf) in buffers else leaf for leaf in outputs
        ]
        after = {name: tensor.detach().clone() for name, tensor in self.buffers.items()}
        after.update(input_memory.input_leaves(self.model, self.inputs))
        if before.into(self.inputs):
            self.inputs = problems.make_inputs(self.problem, device=self.place)
        self.restore()
        return outputs, after, drawn

    def swayed_run(self, is_off: bool, has_tf32: bool) -> tuple[list[torch.Tensor], dict[str, Any]]:
        """(outputs, {target: value afterwards}) of the model once more; `is_off`:
        where its inputs are off by rounding, their own type's or TF32's."""
        import torch
        from torch.utils import _pytree as pytree

        from weft.problem.module_state import memory_of

        self.restore()
        draw = torch.Generator(self.place).manual_seed(problems.SEED)

        def nudged(leaf: torch.Tensor) -> torch.Tensor:
            # All of its memory: a clone has other strides where there are gaps.
            memory = memory_of(leaf).clone()
            if is_off and leaf.is_floating_point():
                unit = torch.finfo(leaf.dtype).eps
                if has_tf32 and leaf.dtype == torch.float32:
                    unit = 2.0**-11
                signs = torch.randint(0, 2, memory.shape, generator=draw, device=leaf.device)
                memory *= 1 + unit * (2 * signs.to(leaf.dtype) - 1)
            return memory.as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())

        inputs = pytree.tree_map_only(torch.Tensor, nudged, self.inputs)
        result = problems.run_forward(self.problem, self.model, inputs)
        outputs = [
            leaf.detach() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)
        ]
        after = {name: tensor.detach().clone() for name, tensor in self.buffers.items()}
        after.update(input_memory.input_leaves(self.model, inputs))
        self.restore()
        return outputs, after

    def check_calls_in_a_row(self) -> None:
        from weft.capture import consecutive_calls

        consecutive_calls.check(
            self.problem,
            self.model,
            self.inputs,
            lambda: set_generators(self.place, self.generators),
        )
        self.restore()

    def refuse_elsewhere(self, outputs: list[torch.Tensor]) -> None:
        """A result that forward() made on another device than it runs on."""
        for leaf in outputs:
            if leaf.device.type == self.place.type:
                continue
            raise problems.ProblemError(
                "forward_failed",
                f"Model.forward returns a tensor on {leaf.device}, and runs on "
                f"{self.place}: make it there, with device=x.device for one",
                file=self.problem.name,
                line=problems.first_line(self.model.forward, self.problem.path),
            )

    def graph_run(
        self, graph: dict[str, Any]
    ) -> tuple[list[torch.Tensor], dict[str, Any], list[torch.Tensor]]:
        """The same of the captured graph, which writes into nothing."""
        import torch
        from torch.utils import _pytree as pytree

        from weft.capture import check as capture_check

        self.restore()
        try:
            with torch.no_grad():
                outputs, mutated = capture_check.run_graph(
                    graph, self.model, pytree.tree_leaves(self.inputs), self.place
                )
        except (ProblemError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            if problems.is_out_of_memory(error):
                raise
            raise capture_check.GraphFailed(error) from error
        names = {node["name"]: node["target"] for node in graph["nodes"] if node["kind"] == "input"}
        mutated = {names.get(target, target): value for target, value in mutated.items()}
        return outputs, mutated, generators(self.place)


def generators(place: torch.device) -> list[torch.Tensor]:
    """States of the random generators that a model there may draw from."""
    import torch

    states = [torch.get_rng_state()]
    if place.type == "cuda":
        states.append(torch.cuda.get_rng_state(place))
    return states


def set_generators(place: torch.device, states: list[torch.Tensor]) -> None:
    import torch

    torch.set_rng_state(states[0])
    if place.type == "cuda":
        torch.cuda.set_rng_state(states[1], place)


def run() -> int:
    """The command line: replies are the only lines on standard output."""
    # What the model prints goes to standard error, also from C++.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.dont_write_bytecode = True  # no __pycache__ beside the user's file
    garbage.collect_rarely()

    def tell(reply: dict[str, Any]) -> None:
        sys.stdout.flush()
        out.write(json.dumps(reply) + "\n")
        out.flush()

    return 0 if main(tell) else 1


if __name__ == "__main__":
    # Threads that the model started must not keep the process alive.
    code = run()
    sys.stderr.flush()
    os._exit(code)
