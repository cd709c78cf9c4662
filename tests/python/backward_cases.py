"""Backward graphs, as AOTAutograd makes them, as cases of kernels' tests."""

from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

from kernel_cases import numbers


def backward_case(name, function, *inputs):
    """The graph of the gradients by every floating input, and what it was
    called with."""
    found = []

    def keep(module, _):
        @make_boxed_func
        def run(*arguments):
            found[:] = [(module, [one.detach() for one in arguments])]
            return module(*arguments)

        return run

    def plain(module, _):
        return make_boxed_func(module)

    leaves = [one.clone().requires_grad_(one.is_floating_point()) for one in inputs]
    result = aot_function(
        function, plain, bw_compiler=keep, partition_fn=min_cut_rematerialization_partition
    )(*leaves)
    result.backward(numbers(result.numel(), seed=11).view(result.shape))
    ((module, arguments),) = found

    def gradients(*given):
        return [one for one in module(*given) if one is not None]

    return name, gradients, tuple(arguments)
