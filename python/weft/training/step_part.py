# What follows Model's or ModelNew's text in the files that `weft eval` compares
# (step_text.py): forward() becomes a step of training, a function of the inputs
# and of the results' gradients.
import torch
from torch.utils import _pytree as _weft_pytree

_weft_model_forward = _weft_class.forward
_weft_model_inputs = get_inputs


def get_inputs():
    """The model's, and gradients of the results: the judge draws them anew in
    each call, as it does all inputs."""
    return [
        *_weft_model_inputs(),
        *(torch.randn(shape, dtype=dtype) for shape, dtype in _weft_gradients),
    ]


def _weft_split(given):
    """(inputs, {name: those that shall have a gradient}, results' gradients)"""
    count = len(given) - len(_weft_gradients)
    leaves, structure = _weft_pytree.tree_flatten(given[:count])
    wanted = {}
    for i in _weft_leaves:
        leaves[i] = leaves[i].detach().requires_grad_()
        wanted[f"input {i}"] = leaves[i]
    return _weft_pytree.tree_unflatten(leaves, structure), wanted, given[count:]


def _weft_results(model, inputs):
    """(the result's tensors, those of them that have a gradient)"""
    results = [
        one
        for one in _weft_pytree.tree_leaves(_weft_model_forward(model, *inputs))
        if isinstance(one, torch.Tensor)
    ]
    return results, [one for one in results if one.requires_grad]


def _weft_step(self, *given):
    """{name: tensor} of results and gradients."""
    inputs, wanted, gradients = _weft_split(given)
    wanted.update((name, one) for name, one in self.named_parameters() if one.requires_grad)
    for one in wanted.values():
        one.grad = None
    with torch.enable_grad():
        results, trained = _weft_results(self, inputs)
        torch.autograd.backward(trained, gradients)
    found = {f"result {i}": one.detach() for i, one in enumerate(results)}
    # What rounding left of a gradient has no size of its own: it is held
    # against another's.
    anchor = wanted[_weft_anchor].grad.flatten()[:1024] if _weft_lost else None
    for name, one in wanted.items():
        gradient, one.grad = one.grad, None
        if name in _weft_lost:
            gradient = torch.cat([gradient.flatten(), anchor])
        found[f"gradient of {name}"] = gradient
    return found


# torch.compile gets the model's own forward(), and AOTAutograd its backward
# pass; a frame that calls backward() it would give up. (Asking for this loads
# Dynamo, which takes seconds.)
_weft_class.forward = (
    torch.compiler.disable(_weft_step, recursive=False) if _weft_is_compiled else _weft_step
)
