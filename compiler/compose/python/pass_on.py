# A tracer writes down the framework's operators, and a transform (vmap, jvp)
# or a fake tensor goes through them: a kernel is none, and reads memory that
# is not there. What is asked here is PyTorch's own state, by names that
# another PyTorch may lack.
_weft_passed_on = ""  # why the last call went to the original forward()
_weft_told = set()  # of what was warned
_weft_transform = getattr(
    torch._C._functorch, "peek_interpreter_stack", lambda: None)
_weft_modes = [
    getattr(torch._C._TorchDispatchModeKey, name)
    for name in ("FAKE", "PROXY", "FUNCTIONAL")
    if hasattr(getattr(torch._C, "_TorchDispatchModeKey", None), name)]


def _weft_note(why):
    """Warns of each reason once."""
    global _weft_passed_on
    _weft_passed_on = why
    if why not in _weft_told:
        _weft_told.add(why)
        warnings.warn("ModelNew runs the original forward() and none of its "
                      "kernels: " + why, stacklevel=4)


def _weft_pass_on(forward, conditions):
    """`forward`, for the reason that belongs to the first condition that does
    not hold."""
    _weft_note(next((why for holds, why in conditions if not holds()),
                    "what was captured does not fit"))
    return forward


def _weft_watched():
    """Whether somebody looks at the operators of this call: kernels are none."""
    if (torch._C._get_tracing_state() is None and _weft_transform() is None
            and torch.autograd.forward_ad._current_level < 0
            and not (torch._C._len_torch_dispatch_stack() and any(
                torch._C._get_dispatch_mode(mode) is not None
                for mode in _weft_modes))):
        return False
    _weft_note("a tracer, a function transform (vmap, jvp, grad) or a fake "
               "tensor mode needs the framework's operators")
    return True


def _weft_wants_gradient(*tensors):
    """Whether the framework would give results with a gradient."""
    return any(tensor.requires_grad for tensor in tensors)


