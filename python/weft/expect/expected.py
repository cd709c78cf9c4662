"""A subgraph's cases and their expected results, which never leave this process.

They are made once for a subgraph and a seed and kept while memory allows, so that the
second candidate of a subgraph costs no reference run.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from weft.expect import compare, inputs, perturbed_runs, summed_terms, tf32
from weft.expect.case import Case, without_tensors
from weft.expect.controls import Controls
from weft.expect.exact_answers import exact_outputs
from weft.expect.expectation_maker import ExpectationMaker
from weft.device.arena import BufferSet
from weft.device.device import HOST, Device
from weft.device.trace_spans import lap
from weft.expect.reference import ROUNDS, Reference, is_narrowing, load_graph
from weft.problem.widen import wide_default, widen

_SELECTORS = {
    "aten.argmax.default",
    "aten.argmin.default",
    "aten.max.dim",
    "aten.min.dim",
}
#: So many large subgraphs' tolerances are remembered.
PASSING_MAX = 64
_WIDE_BYTES = 8

#: Its data are flat input storages.
SubgraphCase = Case[list[torch.Tensor]]


class BadSubgraph(Exception):
    """The reference itself does not run; the text says why."""


def _bytes_of(case: SubgraphCase) -> int:
    return sum(s.nbytes for s in case.data) + sum(one.bytes for one in case.outputs)


@dataclass
class Cases:
    """All cases of one subgraph and seed."""

    reference: Reference
    cases: list[SubgraphCase]
    controls: dict[str, bool | None]
    lacks_float64: bool  #: there was no room for it, in a case or all
    maker: CaseMaker

    @property
    def count(self) -> int:
        return len(self.cases)

    def case(self, number: int) -> SubgraphCase:
        return self.cases[number]

    quick_case = case

    @property
    def bytes(self) -> int:
        return sum(map(_bytes_of, self.cases))

    @property
    def framework_error(self) -> float:
        return max((_worst_error(c) for c in self.cases), default=0.0)


class PassingCases:
    """Cases too large to keep: each is made when asked for, and again when
    asked for again. Controls and errors are of those made so far."""

    bytes = 0

    def __init__(
        self, reference: Reference, seed: int, device: Device, is_large: bool = True
    ) -> None:
        """is_large: each fills a good part of the device, so they are few."""
        self.is_large = is_large
        distributions = (
            *(inputs.FEW_DISTRIBUTIONS if is_large else inputs.DISTRIBUTIONS),
            inputs.ALTERED,
        )
        self.reference = reference
        self.count = len(distributions)
        self.framework_error = 0.0
        self.maker = self._maker = CaseMaker(reference, device)
        self._seed, self._device = seed, device
        self._distributions = list(distributions)
        self._numbered: set[str] = set()  #: outputs of which the first case has numbers
        self._controls = Controls()
        #: What was expected of each so far, less the tensors.
        self._like: dict[int, SubgraphCase] = {}

    @property
    def controls(self) -> dict[str, bool | None]:
        return self._controls.rejected

    @property
    def lacks_float64(self) -> bool:
        return self._maker.lacks_float64

    def case(self, number: int) -> SubgraphCase:
        made = self._made(number, partial(self._maker.expect, self._distributions[number]))
        if number not in self._like:
            if instead := self._instead(number, made):
                self._distributions[number] = instead
                del made
                return self.case(number)
            if not self.lacks_float64:
                self._like[number] = without_tensors(made)
            views = self._maker.views(made.data)
            with lap("controls"):
                self._controls.hold(views, made.outputs, made.finite)
            self.framework_error = max(self.framework_error, _worst_error(made))
        return made

    def _instead(self, number: int, made: SubgraphCase) -> str | None:
        """The distribution that tells more, if there is one."""
        if _is_beyond(made):
            return inputs.MILDER[made.distribution]
        return inputs.INSIDE_EVERY_DOMAIN if self._tells_nothing(number, made) else None

    def _tells_nothing(self, number: int, made: SubgraphCase) -> bool:
        """Whether a finite case has no finite answer, or the second lacks one
        of an output that had none before."""
        tells_as_it_is = inputs.INSIDE_EVERY_DOMAIN, inputs.ALTERED
        if not made.finite or made.distribution in tells_as_it_is:
            return False
        lacking = {output.name for output in made.outputs if not _has_finite(output)}
        if number == 0 and len(lacking) < len(made.outputs):
            self._numbered |= {output.name for output in made.outputs} - lacking
            return False
        return bool(lacking - self._numbered)

    def quick_case(self, number: int) -> SubgraphCase:
        """The same without float64, which takes longer than all the rest, once
        it is known what that said: who is near to the framework is right."""
        if number not in self._like:
            return self.case(number)
        return self._made(number, partial(self._maker.expect_near, like=self._like[number]))

    def _made(
        self, number: int, expect: Callable[[list[torch.Tensor]], SubgraphCase]
    ) -> SubgraphCase:
        if self.is_large:
            with lap("memory"):
                self._device.give_back()
        with lap("expectations"):
            with lap("inputs"):
                storages = self._storages(number)
            return expect(storages)

    def _storages(self, number: int) -> list[torch.Tensor]:
        """Each case's inputs, from a random seed of its own: it can be made again."""
        seed = (self._seed * self.count + number) % (1 << 63)
        generator = self._device.generator(seed)
        chosen = self._distributions[number]
        if chosen == inputs.ALTERED:
            return self._maker.altered(self._storages(0), generator)
        return self._maker.storages(chosen, generator)

    @property
    def like(self) -> SubgraphCase | None:
        """The first case, less the tensors, once all were made; before, None."""
        return self._like[0] if len(self._like) == self.count else None

    def rest(self) -> None:
        """Keeps no tensor, and hopes for more room."""
        self._controls.rest()
        self._maker.lacks_float64 = False


def _is_beyond(case: SubgraphCase) -> bool:
    """Of data for which there is a milder kind."""
    return case.distribution in inputs.MILDER and any(map(compare.is_beyond, case.outputs))


def _has_finite(made: compare.Expected) -> bool:
    """Whether some of up to 2^16 elements, evenly spread, are finite."""
    all_of_it = made.framework
    if all_of_it.numel() == 0:
        return True
    some = torch.arange(
        0, all_of_it.numel(), 1 + (all_of_it.numel() >> 16), device=all_of_it.device
    )
    where = torch.unravel_index(some, all_of_it.shape)
    return bool(all_of_it[where].isfinite().any())


def _worst_error(case: SubgraphCase) -> float:
    return max((output.framework_error for output in case.outputs), default=0.0)


class Library:
    """Cases by subgraph and seed, least recently used given up first."""

    def __init__(self, bytes_max: int, device: Device = HOST) -> None:
        self._bytes_max = bytes_max
        self._device = device
        self._held: OrderedDict[tuple[str, int], Cases] = OrderedDict()
        self._passing: OrderedDict[tuple[str, int], PassingCases] = OrderedDict()

    def like(self, path: str, seed: int) -> SubgraphCase | None:
        """PassingCases.like of a large subgraph's; None of others."""
        passing = self._passing.get(key_of(path, seed))
        return None if passing is None else passing.like

    def cases(self, path: str, seed: int) -> Cases | PassingCases:
        key = key_of(path, seed)
        if key in self._passing:
            return self._pass(key)
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        reference = Reference(load_graph(path), self._device.torch)
        size = BufferSet.bytes_needed(reference.inputs, reference.outputs)
        if self._device.is_large(size):
            return self._pass(key, reference, is_large=True)
        if not self._device.holds_cases(_bytes_of_cases(reference)):
            return self._pass(key, reference, is_large=False)
        made = make_cases(reference, seed, self._device)
        self._held[key] = made
        while len(self._held) > 1 and self.bytes > self._bytes_max:
            self._held.popitem(last=False)
        return made

    def _pass(
        self, key: tuple[str, int], reference: Reference | None = None, is_large: bool = False
    ) -> PassingCases:
        """Cases that are not kept: known ones, or of that reference."""
        if key not in self._passing:
            if len(self._passing) == PASSING_MAX:
                self._passing.popitem(last=False)
            assert reference is not None
            _, seed = key
            self._passing[key] = PassingCases(reference, seed, self._device, is_large)
        if self._passing[key].is_large:
            self.forget()
        return self._passing[key]

    def forget(self) -> None:
        """Gives up all tensors that are kept."""
        self._held.clear()
        self.rest()
        self._device.give_back()

    def rest(self) -> None:
        """Gives up those that only one request may keep."""
        for cases in self._passing.values():
            cases.rest()

    @property
    def bytes(self) -> int:
        return sum(cases.bytes for cases in self._held.values())


def _bytes_of_cases(reference: Reference) -> int:
    """Of all of them: inputs, and results of the framework's and in float64."""
    specs = (*reference.inputs, *reference.outputs)
    wide = sum(_WIDE_BYTES * spec.elements for spec in reference.outputs)
    return (len(inputs.DISTRIBUTIONS) + 1) * (wide + sum(spec.storage_bytes for spec in specs))


def key_of(path: str, seed: int) -> tuple[str, int]:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest(), seed


def make_cases(reference: Reference, seed: int, device: Device = HOST) -> Cases:
    """Runs the reference on every distribution."""
    maker = CaseMaker(reference, device)
    generator = device.generator(seed)
    cases = []
    with lap("expectations"):
        for distribution in inputs.DISTRIBUTIONS:
            device.make_way()
            case = maker.case(distribution, generator)
            if _is_beyond(case):
                case = maker.case(inputs.MILDER[distribution], generator)
            cases.append(case)
        device.make_way()
        cases.append(maker.expect(inputs.ALTERED, maker.altered(cases[0].data, generator)))
    controls = Controls()
    with lap("controls"):
        for case in cases:
            controls.hold(maker.views(case.data), case.outputs, case.finite)
    return Cases(reference, cases, controls.rejected, maker.lacks_float64, maker)


class CaseMaker(ExpectationMaker[SubgraphCase, list[torch.Tensor], list[torch.Tensor]]):
    """Makes inputs for one subgraph and works out what they should give."""

    def __init__(self, reference: Reference, device: Device = HOST) -> None:
        super().__init__(device)
        self.reference = reference
        self.lacks_float64 = False
        self._selectors = _selectors(reference)
        self._exact = exact_outputs(reference.graph)
        operands = sorted({s[0] for s in self._selectors.values()})
        self._operands = operands
        self._eager = reference.function()
        self._wide = reference.function(wide=True, also=operands)
        self._rounding = None  # the same with its own casts, if it has any
        if any(map(is_narrowing, reference.graph["nodes"])):
            self._rounding = reference.function(wide=ROUNDS, also=operands)
        self._length = reduction_length(reference)
        self.multiplies = tf32.multiplies(node["target"] or "" for node in reference.graph["nodes"])
        self._limits = inputs.integer_limits(reference)
        self._norm_weights = inputs.norm_weights(reference)
        self._integer_limit = inputs.INTEGER_LIMIT
        self._trial, self._trial_device = self._eager, device.torch
        if device.is_cuda and not inputs.are_bounded(reference):
            # An index out of range would end this process' use of the GPU. (On
            # the host a cross entropy of half a gigabyte takes half a second.)
            self._trial_device = HOST.torch
            self._trial = Reference(reference.graph).function()

    def storages(self, distribution: str, generator: torch.Generator) -> list[torch.Tensor]:
        """Flat input storages that the reference accepts."""
        while True:
            storages = [
                inputs.make_storage(
                    spec,
                    distribution,
                    generator,
                    self._limits.get(spec.name, self._integer_limit),
                )
                for spec in self.reference.inputs
            ]
            for spec, storage in zip(self.reference.inputs, storages):
                if spec.name in self._norm_weights:
                    inputs.without_infinities(storage)
            try:
                self._try(storages)
                return storages
            except torch.OutOfMemoryError:
                raise
            except (IndexError, RuntimeError) as error:
                # An integer that nothing bounds may still be an index.
                if self._integer_limit == 1 or not self._has_integers():
                    raise BadSubgraph(f"the reference fails: {error}") from None
                self._integer_limit //= 2

    def _try(self, storages: list[torch.Tensor]) -> None:
        if self._trial_device == self.device.torch:
            self._trial(*self.views(storages))
            return
        storages = [s.to(self._trial_device) for s in storages]
        with self.device.lock.released():  # the host may take long
            self._trial(*self.views(storages))

    def _has_integers(self) -> bool:
        """Of which one may be an index."""
        return any(
            not s.dtype.is_floating_point and s.dtype != torch.bool for s in self.reference.inputs
        )

    def case(self, distribution: str, generator: torch.Generator) -> SubgraphCase:
        return self.expect(distribution, self.storages(distribution, generator))

    def altered(
        self, storages: list[torch.Tensor], generator: torch.Generator
    ) -> list[torch.Tensor]:
        """These with few elements changed, where the reference accepts them."""
        made = [inputs.mixed(storage, generator) for storage in storages]
        try:
            self._try(made)
        except torch.OutOfMemoryError:
            raise
        except (IndexError, RuntimeError):  # integers that fit each other no more
            return [storage.clone() for storage in storages]
        return made

    def views(self, storages: list[torch.Tensor]) -> list[torch.Tensor]:
        return [s.view(t) for s, t in zip(self.reference.inputs, storages)]

    def tensors_of(self, results: list[torch.Tensor]) -> list[torch.Tensor]:
        return results

    def run(self, data: list[torch.Tensor]) -> list[torch.Tensor]:
        self.device.make_way()
        return self._eager(*self.views(data))

    def expect_near(self, data: list[torch.Tensor], like: SubgraphCase) -> SubgraphCase:
        made = list(map(compare.near, self._eager(*self.views(data)), like.outputs))
        return Case(like.distribution, data, made, is_near=True)

    def expect(self, distribution: str, data: list[torch.Tensor]) -> SubgraphCase:
        narrow = self._eager(*self.views(data))
        self.find_out_tf32(data, narrow)
        made = self.explained(data, narrow, self.run_wide(data, narrow))
        for one in made:
            if one.name in self._exact:
                one.wide = None  # it answers another question
        self.allow_for_tf32(data, made)
        return Case(distribution, data, made)

    def expect_scaled(self, case: SubgraphCase, factor: float) -> list[compare.Expected]:
        scaled = perturbed_runs.scaled(case.data, factor)
        return self.expect(case.distribution, scaled).outputs

    def against(
        self,
        data: list[torch.Tensor],
        narrow: list[torch.Tensor],
        wide: list[torch.Tensor] | None,
    ) -> list[compare.Expected]:
        """`wide`: the operands of selectors follow the outputs."""
        made = []
        outputs = len(narrow)
        operands = dict(zip(self._operands, (wide or [])[outputs:]))
        truths = [None] * outputs if wide is None else wide
        for spec, framework, truth in zip(self.reference.outputs, narrow, truths):
            if tuple(framework.shape) != spec.shape:
                raise BadSubgraph(
                    f"output {spec.name} has shape {tuple(framework.shape)}, "
                    f"the graph says {spec.shape}"
                )
            one = compare.expect(spec.name, framework, truth, self._length)
            if spec.name in self._selectors:
                name, one.operand_dim = self._selectors[spec.name]
                one.operand = operands.get(name)
            made.append(one)
        return made

    @property
    def casts_to_narrow(self) -> bool:
        return self._rounding is not None

    def run_wide(
        self, data: list[torch.Tensor], narrow: list[torch.Tensor], rounds: bool = False
    ) -> list[torch.Tensor] | None:
        function = self._rounding if rounds else self._wide
        assert function is not None
        self.device.make_way()
        try:
            with wide_default():
                return function(*self.views([widen(s) for s in data]))
        except torch.OutOfMemoryError:
            if not self.device.is_cuda:
                raise
        self.device.give_back()
        self.lacks_float64 = True
        return None


def _selectors(reference: Reference) -> dict[str, tuple[str, int | None]]:
    """{index output: (operand's name, dimension or None)}."""
    found = {}
    for name in reference.graph["outputs"]:
        node = reference.nodes[name]
        if node["kind"] != "call":
            continue
        if node["target"] == "getitem":
            if node["args"][1] != 1:
                continue
            node = reference.nodes[node["args"][0]["node"]]
        if node.get("target") in _SELECTORS:
            dim = node["args"][1] if len(node["args"]) > 1 else None
            found[name] = (node["args"][0]["node"], dim)
    return found


def reduction_length(reference: Reference) -> int:
    """Longest sum in the subgraph, from the shapes of its calls."""
    longest = 1
    for node in reference.graph["nodes"]:
        if node["kind"] != "call" or node["target"] == "getitem":
            continue
        told = summed_terms.terms(
            node["target"].split(".")[1],
            node["args"],
            list(_argument_shapes(reference, node["args"])),
            [value["shape"] for value in node.get("values") or () if value],
        )
        longest = max(longest, told or 1)
    return longest


def _argument_shapes(reference: Reference, args: list[Any]) -> Iterator[list[int]]:
    for arg in args:
        if isinstance(arg, list):
            yield from _argument_shapes(reference, arg)
        elif isinstance(arg, dict) and "node" in arg:
            value = (reference.nodes[arg["node"]].get("values") or [None])[0]
            if value is not None:
                yield value["shape"]
