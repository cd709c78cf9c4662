"""A problem's Model as the reference of a composed module.

Makes inputs and state for each case, in memory that both sides share, and runs Model.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree

from weft.problem.result_form import ResultForm, describe, fits, lie, tensor_leaves
from weft.capture import consecutive_calls
from weft.expect import compare, inputs, perturbed_runs, scalar_variation, tf32
from weft.device.arena import BufferSet
from weft.capture.capture import generators, set_generators
from weft.device.device import HOST, Device
from weft.expect.expectation_maker import ExpectationMaker
from weft.expect.rng_recording import Give, Take
from weft.judge import result_copies, run_expectations
from weft.judge.model_case import ModelCase, RunData, RunResults, Seed, are_parted
from weft.problem.attribute_state import same_values, written_parameter
from weft.device.trace_spans import lap
from weft.problem.module_state import (
    HeldState,
    agreed,
    continued,
    described_state,
    laid_out,
    overlaps,
    random_state,
    rng_digest,
    rng_state,
    copy_sharing_tensors,
    widened,
    write,
)
from weft.problem.problem import build_model, load_problem, make_inputs, refuse_complex
from weft.expect.reference import dense
from weft.problem.widen import FLOATING, WideCasts, wide_default, widen
from weft.expect.summed_terms import UNTOLD, TermsTrace


class WholeModel(ExpectationMaker[ModelCase, RunData, RunResults]):
    """Model, its state, and the shape of its inputs and outputs."""

    def __init__(
        self,
        path: str,
        seed: int,
        precision: str = "framework",
        device: Device = HOST,
        mode: str = "as-is",
    ) -> None:
        super().__init__(device)
        self.precision = precision
        self.problem = load_problem(path, mode)
        self.seed = seed
        with lap("model"):
            consecutive_calls.check_problem(self.problem, device.torch)
            self.model = build_model(self.problem, device=device.torch)
        self.rng = rng_digest(device.torch)
        self._held = HeldState(self.model)
        self.state = self._held.named
        self.initial = [t.detach().clone() for _, t in self.state]
        given = make_inputs(self.problem, device=device.torch)
        self.numbers = scalar_variation.among(given)
        self._leaves, self.treespec = pytree.tree_flatten(given)
        self.tensors = [t for t in self._leaves if isinstance(t, torch.Tensor)]
        # As the file has them: kernels are for these, dense or not.
        self._strides = [list(t.stride()) for t in self.tensors]
        # Of the first case only shapes are asked, and what changes.
        self._uses_float64 = self._casts_to_narrow = False
        self._changing = set(self.problem.adopted)
        first = self._traced_case(self.data("given", device.generator(seed)))
        self._uses_float64 = True
        self._changing.update(
            name
            for (name, _), was, after in zip(self.state, first.data.state, first.state_after)
            if not torch.equal(was, after.framework)
        )
        for name, _ in self.model.named_parameters():
            if name in self._changing:
                raise written_parameter(self.problem, name)
        self.form = first.form
        self._layout(first)
        self.is_large = device.is_large(self.buffers.end)
        self.takes_any_values = True
        self.multiplies = tf32.multiplies(self.operators)
        if device.is_cuda:
            self.takes_any_values = not any(
                word in name for name in self.operators for word in inputs.STRICT_OPERATORS
            )
            self._forget_values()

    def _traced_case(self, data: RunData) -> ModelCase:
        """The case of that data, with all that is expected; which operators forward()
        calls, and how many terms they sum."""
        trace, self._length = TermsTrace(), UNTOLD
        expect = partial(self.expect, "given", data)
        try:
            made = expect(trace)
            self._length = trace.length
        except torch.OutOfMemoryError:
            raise
        except Exception:  # of the trace (torch.cond), or forward()'s own
            made = None
        _reset_compiler()
        self.operators = trace.computing
        return expect() if made is None else made

    def _forget_values(self) -> None:
        """Of the inputs given only dtypes and shapes are needed now, and of
        indices their values."""
        self.tensors = [t.to("meta") if t.dtype in FLOATING else t for t in self.tensors]
        left = iter(self.tensors)
        self._leaves = [
            next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves
        ]

    def _layout(self, first: ModelCase) -> None:
        """Where everything lies; outputs travel contiguous."""
        for output in first.outputs:
            refuse_complex(self.problem, output.framework)
        leaves = [dense("input", t) for t in self.tensors]
        kept = leaves + [dense(name, t) for name, t in self.state]
        outputs = [dense(m.name, m.framework) for m in first.outputs]
        self.buffers = BufferSet(0, kept, outputs + kept)
        a, b = len(leaves), len(outputs)
        places_in, places_out = self.buffers.inputs, self.buffers.outputs
        self.places = {
            "inputs": places_in[:a],
            "state": places_in[a:],
            "outputs": places_out[:b],
            "inputs_after": places_out[b : b + a],
            "state_after": places_out[b + a :],
        }

    @property
    def bytes_floor(self) -> int:
        """What one call reads and writes at least."""
        return sum(
            place.spec.touched_bytes
            for key in ("inputs", "state", "outputs")
            for place in self.places[key]
        )

    def job(self) -> dict[str, Any]:
        """What both sides need to run: layout and structure, no values."""
        number, template = 0, []
        for leaf in self._leaves:
            if isinstance(leaf, torch.Tensor):
                stride = self._strides[number]
                template.append({"place": number, "stride": stride})
                number += 1
            else:
                template.append({"value": leaf})
        return {
            "places": {k: [p.to_json() for p in v] for k, v in self.places.items()},
            "inputs": template,
            "treespec": pytree.treespec_dumps(self.treespec),
            "outputs": self.form.to_json()["outputs"],
            "state": described_state(self.state),
            "adopted": self.problem.adopted,
            "mode": self.problem.mode,
            "precision": self.precision,
        }

    def write(self, data: RunData) -> None:
        """Inputs and state into shared memory."""
        self.buffers.write_inputs(data.flat)
        self.buffers.fill_outputs()

    def hide_inputs(self) -> None:
        """No input is in shared memory until the next is written."""
        leaves = len(self.places["inputs"])
        for storage in self.buffers.input_storages[:leaves]:
            storage.zero_()
        self.device.synchronize()

    def case(self, distribution: str, generator: torch.Generator) -> ModelCase:
        """A case of that distribution; raises what forward() raises."""
        return self.expect(distribution, self.data(distribution, generator))

    def data(self, distribution: str, generator: torch.Generator) -> RunData:
        """Inputs and state of that distribution, of which nothing is expected yet."""
        seed = int(torch.randint(1 << 30, (1,), generator=generator, device=generator.device))
        if distribution == "given":
            leaves = [t.clone() for t in self._given(self.seed)]
        elif distribution == "varied":
            leaves = [
                inputs.varied(t, generator) if self._is_alike(t) else given
                for t, given in zip(self.tensors, self._given(self.seed))
            ]
        elif distribution in inputs.FLAGS:
            leaves = [inputs.flagged(t, distribution) for t in self._given(self.seed)]
        else:
            leaves = [inputs.random_leaf(t, distribution, generator) for t in self.tensors]
        state = random_state(
            [(n, t) for (n, _), t in zip(self.state, self._typed_initial())],
            generator,
            self._changing,
        )
        return RunData(seed, self.as_laid_out(leaves), agreed(self.state, state))

    def altered(self, case: ModelCase, generator: torch.Generator) -> ModelCase:
        """That case with few elements of its inputs changed: what was
        remembered by a sample of them is not noticed to be stale."""
        leaves = self.as_laid_out([inputs.altered(t, generator) for t in case.data.leaves])
        return self.expect(inputs.ALTERED, replace(case.data, leaves=leaves))

    def touched(
        self, case: ModelCase, how: str, generator: torch.Generator, attempt: int = 0
    ) -> ModelCase:
        """That case, but for one element or row of each input."""
        leaves = self.as_laid_out(
            [inputs.touched(t, how, generator, attempt) for t in case.data.leaves]
        )
        return self.expect(how, replace(case.data, leaves=leaves))

    @property
    def has_alike(self) -> bool:
        """Whether an argument is of equal integers or flags, which may be
        others."""
        return any(map(self._is_alike, self.tensors))

    def _is_alike(self, tensor: torch.Tensor) -> bool:
        if tensor.dtype in FLOATING or tensor.is_complex():
            return False
        # A place that is out of range ends the use of a device.
        looks_up = self.device.is_cuda and any(
            word in name for name in self.operators for word in scalar_variation.LOOKUPS
        )
        return not looks_up and inputs.are_alike(tensor)

    @property
    def tells_ties(self) -> bool:
        """Whether it says which one of equal values it takes."""
        return not any(
            name.partition(".")[2].startswith(inputs.CHOOSERS) for name in self.operators
        )

    def as_laid_out(self, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        """The values that they have in memory: not all, where elements of a
        tensor are one there."""
        return [
            laid_out(t, stride).contiguous() if overlaps(t.shape, stride) else t
            for t, stride in zip(leaves, self._strides)
        ]

    def _typed_initial(self) -> Iterator[torch.Tensor]:
        """Initial values, still telling parameters from buffers."""
        for (_, tensor), value in zip(self.state, self.initial):
            if isinstance(tensor, torch.nn.Parameter):
                value = torch.nn.Parameter(value, requires_grad=False)
            yield value

    def expect(
        self,
        distribution: str,
        data: RunData,
        within: contextlib.AbstractContextManager[Any] = contextlib.nullcontext(),
    ) -> ModelCase:
        """Runs Model, within that context; the case with all that is expected
        of it."""
        before = self.device.peak_bytes()
        with lap("framework"):
            narrow = self._run(self.model, data, within=within)
        narrow.memory_bytes = self.device.peak_bytes() - before
        self.find_out_tf32(data, narrow)
        wide = self.run_wide(data, narrow)
        is_wide = wide is not None
        made = self.explained(data, narrow, wide)
        self.allow_for_tf32(data, made)
        if is_wide and narrow.drew and are_parted(made):
            self._uses_float64 = False
            return self.expect(distribution, data)
        return self._case_of(distribution, data, narrow, made)

    def against(
        self, data: RunData, narrow: RunResults, wide: RunResults | None
    ) -> list[compare.Expected]:
        names = [name for name, _ in self.state]
        return run_expectations.against(data, names, narrow, wide, self._length)

    def tensors_of(self, results: RunResults) -> list[torch.Tensor]:
        return results.tensors

    def run(self, data: RunData) -> RunResults:
        return self._run(self.model, data)

    def expect_scaled(self, case: ModelCase, factor: float) -> list[compare.Expected]:
        """The expectations of the inputs of that case times that factor; of its
        state times that, where no input is of a floating type."""
        leaves, state = case.data.leaves, case.data.state
        if any(leaf.is_floating_point() for leaf in leaves):
            leaves = self.as_laid_out(perturbed_runs.scaled(leaves, factor))
        else:
            state = agreed(self.state, perturbed_runs.scaled(state, factor))
        return self.expect(
            case.distribution, replace(case.data, leaves=leaves, state=state)
        ).expectations

    def expect_near(self, data: RunData, like: ModelCase) -> ModelCase:
        narrow = self.run_eager(data)
        made = list(map(compare.near, narrow.tensors, like.expectations))
        return replace(self._case_of(like.distribution, data, narrow, made), is_near=True)

    @staticmethod
    def _case_of(
        distribution: str, data: RunData, narrow: RunResults, made: list[compare.Expected]
    ) -> ModelCase:
        count = len(narrow.outputs)
        return ModelCase(distribution, data, made[:count], made[count:], form=narrow.form)

    def run_eager(self, data: RunData) -> RunResults:
        """What Model leaves of them."""
        with lap("framework"):
            return self.run(data)

    def generators(self) -> list[torch.Tensor]:
        """The states of the generators of random numbers, now."""
        return generators(self.device.torch)

    def _run(
        self,
        model: torch.nn.Module,
        data: RunData,
        take: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor,
        within: contextlib.AbstractContextManager[Any] = contextlib.nullcontext(),
    ) -> RunResults:
        """One forward() on copies of the leaves, as `take` gives them."""
        self.device.make_way()
        held = self._held if model is self.model else HeldState(model)
        held.put(data.state)
        mine = [laid_out(take(t), stride) for t, stride in zip(data.leaves, self._strides)]
        args, lain = self.arguments(mine), list(map(lie, mine))
        self._begin_draws(data.seed)
        drawn = rng_state(self.device.torch)
        owners = mine + [t for _, t in held.named]
        try:
            with torch.no_grad(), within:
                result = model(*args)
            after = held.now()
        finally:
            held.rewind()
        return RunResults(
            outputs=result_copies.of_its_own(
                tensor_leaves(result), [*owners, *after, *result_copies.attributes(model)]
            ),
            inputs_after=[
                result_copies.unless_changed(t, leaf) for t, leaf in zip(mine, data.leaves)
            ],
            state_after=result_copies.copied_if_changed(after, data.state),
            form=describe(result, mine, lain, held.named, after),
            drew=drawn != rng_state(self.device.torch),
        )

    def _begin_draws(self, seed: Seed) -> None:
        """`seed`: or the generators' states."""
        if isinstance(seed, int):
            torch.manual_seed(seed)
        else:
            set_generators(self.device.torch, seed)

    def following(
        self, case: ModelCase, generator: torch.Generator, continues: bool
    ) -> tuple[ModelCase, list[bool], str | None]:
        """(A case for the call after that one's, which seeds nothing; which of
        that one's results Model then leaves as they are; rng_digest, if it leaves
        that). `continues`: by what Model counts, and has set up by then. Raises
        what forward() raises."""
        state = self.data("given", generator).state
        if continues:
            left = [one.framework for one in case.state_after]
            state = continued(self.state, state, left, self._changing)
        leaves = self.drawn(self.seed + 1)
        given = case.data
        if leaves is None or all(map(torch.equal, leaves, given.leaves)):
            leaves = given.leaves
            if self.takes_any_values:
                leaves = self.as_laid_out([inputs.altered(t, generator) for t in leaves])
        mine = [laid_out(*each) for each in zip(given.leaves, self._strides)]
        results = tensor_leaves(self._called(mine, given.state, given.seed))
        before = [t.clone() for t in results]
        drawn = generators(self.device.torch)
        for tensor, value in zip(mine, leaves):
            write(tensor, value)
        digest = rng_digest(self.device.torch)
        self._called(mine, state, drawn)
        stay = list(map(same_values, results, before))
        draws = rng_digest(self.device.torch) != digest
        later = self.expect("next", RunData(drawn, leaves, state))
        return later, stay, None if draws else digest

    def with_number(self, leaf: int, value: bool | int | float) -> WholeModel:
        """The same, where forward() is given that value for that leaf of its
        arguments. By a twin of Model: what it keeps in Python must not change
        for who is judged next."""
        other = copy.copy(self)
        other.model = copy_sharing_tensors(self.model)
        other._held = HeldState(other.model)
        other._leaves = [*self._leaves]
        other._leaves[leaf] = value
        return other

    def has_room_for(self, form: ResultForm) -> bool:
        """Whether results that look so are of the shapes that memory is kept for."""
        return fits(form, self.form.outputs)

    def fits(self, data: RunData, trace: TermsTrace) -> bool:
        """Whether the results of that data fit the memory that is kept for
        them; its tolerances are by the calls of this run from now on. Raises
        what forward() raises."""
        run = partial(self._run, self.model, data)
        made: RunResults | None
        try:
            made, self._length = run(within=trace), trace.length
        except torch.OutOfMemoryError:
            raise
        except Exception:  # of the trace (torch.cond), or forward()'s own
            if self.device.is_cuda:  # where the trace must see all calls
                raise
            made = None
        finally:
            _reset_compiler()
        if made is None:
            made, self._length = run(), UNTOLD
        self.multiplies = tf32.multiplies(trace.called)
        self.framework_used_tf32 = None
        return self.has_room_for(made.form)

    def _called(self, mine: list[torch.Tensor], state: list[torch.Tensor], seed: Seed) -> Any:
        """Model's result, as it gives it."""
        self.device.make_way()
        self._held.put(state)
        self._begin_draws(seed)
        try:
            with torch.no_grad():
                return self.model(*self.arguments(mine))
        finally:
            self._held.rewind()

    def _given(self, seed: int) -> list[torch.Tensor]:
        """The tensors that get_inputs() gives after that seed, contiguous."""
        given = make_inputs(self.problem, seed, self.device.torch)
        return [
            t.detach().contiguous()
            for t in pytree.tree_leaves(given)
            if isinstance(t, torch.Tensor)
        ]

    def drawn(self, seed: int) -> list[torch.Tensor] | None:
        """What get_inputs() gives after that seed; None, if of another form."""
        leaves = self._given(seed)
        form = [(t.dtype, t.shape) for t in leaves]
        same = form == [(t.dtype, t.shape) for t in self.tensors]
        return leaves if same else None

    def takes(self, data: RunData) -> bool:
        """Whether Model runs on them."""
        try:
            self.run(data)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # whatever Model raises for what it does not take
            return False
        return True

    def arguments(self, tensors: Iterable[torch.Tensor]) -> Any:
        """forward()'s arguments, with these tensors in them."""
        left = iter(tensors)
        filled = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        return pytree.tree_unflatten(filled, self.treespec)

    def _draws_of(self, data: RunData) -> Give:
        """A context that draws what Model draws in such a run."""
        drawn: list[tuple[str, torch.Tensor]] = []
        with Take(drawn, self.device.torch):
            self.run(data)
        return Give(drawn)

    @property
    def casts_to_narrow(self) -> bool:
        return self._casts_to_narrow

    def run_wide(
        self, data: RunData, narrow: RunResults, rounds: bool = False
    ) -> RunResults | None:
        if not self._uses_float64 or 3 * narrow.memory_bytes > self.device.free_bytes():
            return None
        casts = WideCasts(rounds)
        try:
            # Before there is a second model, which takes memory.
            given = self._draws_of(data) if narrow.drew else contextlib.nullcontext()
            model = widened(self.model)
            wide = replace(data, state=[widen(t) for t in data.state])
            with lap("float64"), wide_default(), casts, given:
                made = self._run(model, wide, widen)
            self._casts_to_narrow = casts.has_narrow
            return made
        except torch.OutOfMemoryError:  # another case may have room
            self.device.give_back()
        except Exception:  # it insists on float32, or draws untold
            if not rounds:  # else it has an answer without
                self._uses_float64 = False
        return None


def _reset_compiler() -> None:
    """What torch.compile was given within a trace, it leaves alone for good."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
