"""Makes a ModelNew of a bare kernel_function, as KernelAgent's kernels are.

It is called with the arguments of forward(), then the model's parameters, then
its buffers, each in the order of named_parameters() and named_buffers(); or,
if it takes no more than forward()'s arguments, with these alone.
"""

import inspect

from weft.problem.problem import load_problem


class Mismatch(TypeError):
    """kernel_function takes other arguments than it would be given."""


def around(module, problem_path):
    """A class like the problem's Model whose forward() is the function."""
    problem = load_problem(problem_path).module
    model_class, function = problem.Model, module.kernel_function
    module.get_init_inputs = problem.get_init_inputs

    class ModelNew(model_class):
        def forward(self, *inputs):
            state = [*self.parameters(), *self.buffers()]
            return function(*_arguments(function, list(inputs), state))

    return ModelNew


def _arguments(function, inputs, state):
    if _takes(function, inputs + state):
        return inputs + state
    if _takes(function, inputs):
        return inputs
    raise Mismatch(
        f"kernel_function takes neither the {len(inputs)} inputs nor these and "
        f"the {len(state)} parameters and buffers"
    )


def _takes(function, arguments):
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # a signature that Python cannot see
        return True
    return True
