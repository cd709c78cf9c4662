"""Generated code that computes a part of the program, with its own operators for the case
that it fails."""

import threading
from collections.abc import Callable, Sequence

import torch
from torch import fx

from weft.backend.graphs.problem_source import Source
from weft.backend.implementations import first_result_check
from weft.backend.implementations.composed_module import ComposedModule
from weft.backend.options import log, told
from weft.backend.searches.region_module import RegionModule
from weft.backend.searches.vendor_products import VendorProduct


class KernelOfRegion:
    """The kernel of one subgraph of a region. `text` is the whole module's."""

    def __init__(self, module: RegionModule, subgraph: str) -> None:
        self.text = module.text
        self._module = module
        self._run = module.kernel(subgraph)

    def __call__(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        """The subgraph's results."""
        self._module.raise_if_revoked()
        with torch.no_grad():
            made = self._run(*arguments)
        return list(made) if isinstance(made, tuple) else [made]


class Kernel:
    """Generated code as a function of the list of its inputs: a region's module, or one
    kernel of it. If a call fails, its own operators compute from then on."""

    def __init__(
        self,
        source: Source | None,
        composed: "ComposedModule | RegionModule | KernelOfRegion | VendorProduct",
        reference: fx.GraphModule,
        on_failure: Callable[[str], None],
    ) -> None:
        self.source = source
        self.composed = composed
        self.failure = ""
        #: While a trial runs, where a call's difference from the reference goes.
        self.check: list[str] | None = None
        self._reference = reference
        self._on_failure = on_failure
        self._lock = threading.Lock()

    def __call__(self, arguments: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        if not self.failure:
            try:
                made: Sequence[torch.Tensor] = self.composed(arguments)
                if self.check is not None:
                    self._compare(made, arguments, self.check)
                return made
            except Exception as error:
                self.settle("pytorch", f"a call failed with {told(error)}")
        results: Sequence[torch.Tensor] = self._reference(*arguments)
        return results

    def _compare(
        self, made: Sequence[torch.Tensor], arguments: list[torch.Tensor], found: list[str]
    ) -> None:
        memory = {argument.untyped_storage().data_ptr() for argument in arguments}
        if any(one.untyped_storage().data_ptr() in memory for one in made):
            found.append("a result is memory of an argument's")
            return
        expected = list(self._reference(*arguments))
        why = first_result_check.Check(self._reference, arguments).why_not(expected, list(made))
        if why:
            found.append(f"on the program's own data the kernels came to something else: {why}")

    def settle(self, _: str, reason: str = "") -> None:
        """Gives the module up, as a full verdict that finds it wrong does
        (background_verification.py)."""
        with self._lock:
            if self.failure:
                return
            self.failure = reason or "given up"
        log.info("a region's kernels are given up: %s", self.failure)
        if self.check is None:  # a trial says itself what failed in it
            self._on_failure(self.failure)
