# What follows the problem's own text in ModelNew's file: _weft_plan, the texts
# of both graphs' modules and backend/graphs/graph_arguments.py stand before it.
import linecache
import sys
import types

from torch.utils import _pytree as _weft_pytree

#: Why the last call, or a part of it, ran none of the kernels: docs/explanation/verification.md.
_weft_passed_on = ""


class _WeftGraph:
    """One of the graphs: the module that computes it."""

    def __init__(self, name, text, plan):
        # Triton reads the text of its kernels through linecache.
        file = f"<weft {name} {id(self)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        self._module = module = types.ModuleType(f"weft_{name}_{id(self)}")
        module.__file__ = globals().get("__file__", file)
        sys.modules[module.__name__] = module
        exec(compile(text, file, "exec"), module.__dict__)
        self._constants, self.calls = plan["constants"], 0
        self._call = _WeftGraphCall(
            module.ModelNew if plan["kernels"] else module.Model,
            plan["inputs"],
            plan["state"],
            plan["parameters"],
            plan["outputs"],
        )

    def __call__(self, arguments):
        global _weft_passed_on
        results = self._call(
            [*arguments, *(one.to(arguments[0].device) for one in self._constants)]
        )
        self.calls += 1
        why = getattr(self._module, "_weft_passed_on", "")
        if why:
            self._module._weft_passed_on, _weft_passed_on = "", why
        return results


_weft_forward = _WeftGraph("forward", _weft_forward_text, _weft_plan["forward"])
_weft_backward = _WeftGraph("backward", _weft_backward_text, _weft_plan["backward"])


class _WeftStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *arguments):
        results = _weft_forward(arguments)
        count = len(_weft_plan["results"])
        kept = results[count:]
        # Buffers are written once the results are there.
        for i in _weft_plan["copied"]:
            kept[i] = kept[i].clone()
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*kept)
        ctx.mark_non_differentiable(
            *[result for result, has in zip(results, _weft_plan["differentiable"]) if not has]
        )
        ctx.looks = [
            (one.shape, one.stride(), one.dtype, one.device)
            for one, has in zip(results, _weft_plan["differentiable"])
            if has
        ]
        return tuple(results[:count])

    @staticmethod
    def backward(ctx, *gradients):
        if torch.is_grad_enabled():  # else they would silently be constants
            raise RuntimeError(
                "weft: these gradients cannot be derived in their turn "
                "(create_graph=True): use Model for that"
            )
        given = [one for one, has in zip(gradients, _weft_plan["differentiable"]) if has]
        tangents = [_weft_laid_out(one, *look) for one, look in zip(given, ctx.looks)]
        found = iter(_weft_backward([*ctx.saved_tensors, *tangents]))
        wanted = _weft_plan["wanted"]
        return tuple(
            next(found) if i in wanted else None for i in range(len(_weft_plan["arguments"]))
        )


def _weft_laid_out(gradient, shape, stride, dtype, device):
    """In memory as the result that it belongs to; None is zeros."""
    if gradient is None:
        return torch.empty_strided(shape, stride, dtype=dtype, device=device).zero_()
    if gradient.stride() == stride:
        return gradient
    return torch.empty_strided(shape, stride, dtype=dtype, device=device).copy_(gradient)


def _weft_gathered(model, args, kwargs):
    """(the tensors of this call, ""), or (None, why the original computes
    it)."""
    if _weft_is_watched():
        return None, "it is traced, or under a mode or autocast"
    leaves, structure = _weft_pytree.tree_flatten((args, kwargs))
    if structure != _weft_structure:
        return None, "forward() is called with other arguments"
    modules = dict(model.named_modules(remove_duplicate=False))
    if modules.keys() != _weft_plan["parts"].keys():
        return None, "its parts are others"
    for path, (training, settings) in _weft_plan["parts"].items():
        part = modules[path]
        own = vars(part)
        if part.training != training:
            return None, "its mode is another"
        if path and (
            part._forward_hooks
            or part._forward_pre_hooks
            or part._backward_hooks
            or part._backward_pre_hooks
        ):
            return None, f"its part {path} has hooks"
        for name, value in settings.items():
            if name not in own or own[name] != value:
                return None, f"{path}.{name} is another"
    found = []
    for kind, owner, name, leaf, constant, look in _weft_plan["arguments"]:
        if kind == "input":
            value = leaves[leaf]
        elif kind == "constant":
            found.append(constant)
            continue
        else:
            tables = modules[owner]
            value = (tables._parameters if kind == "parameter" else tables._buffers).get(name)
        shape, stride, dtype, device, wants = look
        if (
            type(value) not in (torch.Tensor, torch.nn.Parameter)
            or value.shape != shape
            or value.stride() != stride
            or value.dtype != dtype
            or value.device.type != device
            or value.requires_grad
            and not wants
        ):
            return (
                None,
                "a tensor has another shape, dtype, layout or place, "
                "or wants a gradient that it did not",
            )
        found.append(value)
    device = next(one.device for one in found)
    return [
        one.to(device) if entry[0] == "constant" else one
        for one, entry in zip(found, _weft_plan["arguments"])
    ], ""


def _weft_is_watched():
    """Whether somebody changes or records what operators do."""
    return (
        torch.is_autocast_enabled("cpu")
        or torch.is_autocast_enabled("cuda")
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


_weft_structure = _weft_pytree.treespec_loads(_weft_plan["structure"])
_weft_result_structure = _weft_pytree.treespec_loads(_weft_plan["result"])


class ModelNew(Model):
    """Model, whose forward and backward pass are kernels where a call is like
    the one that they were made for: `weft_reason` says why the last was not."""

    weft_reason = ""

    def forward(self, *args, **kwargs):
        global _weft_passed_on
        tensors, self.weft_reason = _weft_gathered(self, args, kwargs)
        if tensors is None:
            _weft_passed_on = self.weft_reason
            return super().forward(*args, **kwargs)
        outputs = []
        results = _WeftStep.apply(*tensors)
        for (kind, place), value in zip(_weft_plan["results"], results):
            if kind == "output":
                outputs.append(value)
            else:
                with torch.no_grad():
                    self.get_submodule(place[0])._buffers[place[1]].copy_(value)
        return _weft_pytree.tree_unflatten(outputs, _weft_result_structure)
