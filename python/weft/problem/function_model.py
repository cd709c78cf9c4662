"""Makes a ModelNew of a bare kernel_function, as KernelAgent's kernels are.

It is called with the arguments of forward(), then the model's parameters, then its buffers,
in the order of named_parameters() and named_buffers(). If it takes no more than forward()'s
arguments, it is called with these alone.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from weft.problem.problem import binds, load_problem

if TYPE_CHECKING:
    import torch


class Mismatch(TypeError):
    """kernel_function takes other arguments than it would be given."""


def around(module: ModuleType, problem_path: str) -> type[torch.nn.Module]:
    """A class like the problem's Model whose forward() is the function."""
    problem = load_problem(problem_path).module
    model_class: Any = problem.Model
    function = module.kernel_function
    setattr(module, "get_init_inputs", problem.get_init_inputs)

    class ModelNew(model_class):
        def forward(self, *inputs: Any) -> Any:
            state = [*self.parameters(), *self.buffers()]
            return function(*_arguments(function, list(inputs), state))

    return ModelNew


def _arguments(function: Callable[..., Any], inputs: list[Any], state: list[Any]) -> list[Any]:
    if binds(function, inputs + state):
        return inputs + state
    if binds(function, inputs):
        return inputs
    raise Mismatch(
        f"kernel_function takes neither the {len(inputs)} inputs nor these and "
        f"the {len(state)} parameters and buffers"
    )
