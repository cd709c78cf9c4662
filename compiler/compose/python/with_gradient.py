# Kernels have no derivatives. Where a gradient is wanted they compute the
# results all the same, and backward() runs the original forward() once more and
# derives that: its gradients are PyTorch's own. Of each kind of call (which
# tensors require a gradient) the first is the original's: it shows which
# results PyTorch gives one. Once backward() has come to a model it is being
# trained: the original then computes results and gradients in one go.
_weft_dotted = [".".join((*path, name))
                for path, names in _weft_names for name in names]
_weft_kept_at = [place for place, name in enumerate(_weft_dotted)
                 if name not in _weft_written]
_weft_flatten = torch.utils._pytree.tree_flatten


def _weft_takes_no_hooks(_):
    """For a PyTorch that does not tell whether there are hooks, as 2.6: what is
    saved where there are some takes no more of them."""
    one = torch.ones((), device="cpu", requires_grad=True)
    with torch.enable_grad():
        kept = one * one
    try:
        kept.grad_fn._raw_saved_self.register_hooks(
            lambda tensor: tensor, lambda tensor: tensor)
    except RuntimeError:
        return True
    return None


_weft_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks",
                      _weft_takes_no_hooks)


class _WeftPlace(int):
    """Stands for the tensor of that number among those that a call reads."""


def _weft_with_gradient(model, tensors, args, kwargs):
    """forward() where one of the tensors requires a gradient; they are all
    that it reads, the model's own (_weft_dotted) last."""
    kinds = model.__dict__.setdefault("_weft_kinds", {})
    kind = tuple([tensor.requires_grad for tensor in tensors])
    why = ""
    if _weft_hooks(False) is not None:  # checkpoint, save_on_cpu
        why = "what PyTorch saves for backward() goes through hooks"
    elif "trained" in kinds:
        why = ("a gradient is wanted, and backward() has been called: the "
               "original computes results and gradients in one go. Call it "
               "within torch.no_grad() for its kernels")
    elif kind not in kinds:
        result = model.forward_reference(*args, **kwargs)
        kinds[kind] = _weft_differentiable(model, tensors, result)
        return result
    elif kinds[kind] is None:
        why = ("a gradient is wanted that cannot be had beside kernels: a "
               "result is a view, or what forward() keeps has a gradient, or "
               "it reads tensors that are no parameters. Call it within "
               "torch.no_grad() for its kernels")
    if why:
        _weft_note(why)
        return model.forward_reference(*args, **kwargs)
    call = _WeftCall(model, tensors, args, kwargs, kinds[kind])
    saved = tensors[:call.first] + [
        tensors[call.first + place] for place in _weft_kept_at]
    return call.nested(_WeftDerived.apply(call, *saved))


def _weft_tensors(nest):
    return [leaf for leaf in _weft_flatten(nest)[0]
            if isinstance(leaf, torch.Tensor)]


def _weft_own(model):
    """The model's parameters and buffers by all their names."""
    return {**dict(model.named_parameters(remove_duplicate=False)),
            **dict(model.named_buffers(remove_duplicate=False))}


def _weft_differentiable(model, tensors, result):
    """Which results have a gradient. None: kernels cannot stand in for such a
    call, as something else than these results and tensors takes part."""
    leaves = _weft_tensors(result)
    own = _weft_own(model)
    known = {id(tensor) for tensor in own.values()}
    memory = [tensor.untyped_storage()._cdata for tensor in (*leaves, *tensors)]
    made = set(memory[:len(leaves)])
    fits = (all(type(leaf) is torch.Tensor for leaf in leaves)
            and len(made) == len(leaves)
            and not made & set(memory[len(leaves):])
            and all(name in own and not own[name].requires_grad
                    for name in _weft_written)
            and all(id(tensor) in known or not tensor.requires_grad
                    for tensor in tensors[len(tensors) - len(_weft_dotted):])
            and _weft_knows_sources(leaves, tensors))
    return tuple([leaf.requires_grad for leaf in leaves]) if fits else None


def _weft_knows_sources(results, tensors):
    """Whether what the results are derived from is all among the tensors."""
    ends = {tensor.grad_fn for tensor in tensors}
    known = {id(tensor) for tensor in tensors}
    found = {result.grad_fn for result in results} - {None}
    left = list(found)
    while left:
        node = left.pop()
        if node in ends:
            continue
        if hasattr(node, "variable") and id(node.variable) not in known:
            return False
        above = {node for node, _ in node.next_functions} - {None} - found
        found |= above
        left += above
    return True


class _WeftCall:
    """One call whose results may be derived later."""

    def __init__(self, model, tensors, args, kwargs, have_gradient):
        self.model, self.args, self.kwargs = model, args, kwargs
        self.have_gradient, self.form, self.leaves = have_gradient, None, None
        self.first = len(tensors) - len(_weft_dotted)
        # forward() itself makes another of it.
        self.before = {
            name: tensors[self.first + place].clone()
            for place, name in enumerate(_weft_dotted)
            if name in _weft_read_and_written}
        self.random = _weft_generators(tensors) if _weft_draws else None

    def compute(self, saved):
        """The results. The arguments are autograd's to hold from then on."""
        args, kwargs = self.args, self.kwargs
        places = {id(tensor): _WeftPlace(i) for i, tensor in enumerate(saved)}
        self.args, self.kwargs = torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda leaf: places[id(leaf)], (args, kwargs))
        leaves, self.form = _weft_flatten(
            ModelNew.forward(self.model, *args, **kwargs))
        is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        self.leaves = [_WeftPlace if one else leaf
                       for leaf, one in zip(leaves, is_tensor)]
        return tuple(leaf for leaf, one in zip(leaves, is_tensor) if one)

    def nested(self, results):
        """As forward() returns them."""
        left = iter(results)
        return torch.utils._pytree.tree_unflatten(
            [next(left) if leaf is _WeftPlace else leaf
             for leaf in self.leaves], self.form)

    def swaps(self, saved, stand_ins):
        """{name: tensor} that the model computes with this once, so that its
        own are neither written nor given gradients."""
        now = _weft_state(self.model) if _weft_dotted else []
        if now is None or not _weft_unchanged(self.model) or not all(
                now[place] is tensor for place, tensor
                in zip(_weft_kept_at, saved[self.first:])):
            raise RuntimeError(
                "weft: ModelNew has another mode, setting, part or tensor than "
                "when it computed these results, so that they cannot be "
                "derived: call backward() before that changes, or use "
                "forward_reference()")
        instead = {id(tensor): stand_in
                   for tensor, stand_in in zip(saved, stand_ins)}
        own = _weft_own(self.model)
        swaps = {name: instead[id(tensor)] for name, tensor in own.items()
                 if id(tensor) in instead}
        for name in _weft_written:
            swaps[name] = self.before.get(name, own[name]).clone()
        return {"model." + name: tensor for name, tensor in swaps.items()}

    def compute_again(self, saved, stand_ins):
        """The original's results, of the stand-ins."""
        args, kwargs = torch.utils._pytree.tree_map_only(
            _WeftPlace, lambda place: stand_ins[place],
            (self.args, self.kwargs))
        swaps = self.swaps(saved, stand_ins)
        now = _weft_generators(saved) if self.random else None
        try:
            if self.random:
                _weft_set_generators(saved, self.random)
            with torch.autocast("cpu", enabled=False), \
                    torch.autocast("cuda", enabled=False):
                return _weft_tensors(torch.func.functional_call(
                    _WeftOriginal(self.model), swaps, args, kwargs))
        finally:
            if self.random:
                _weft_set_generators(saved, now)

    def derive(self, saved, is_wanted, gradients):
        """The gradient of each saved tensor of which it is wanted."""
        again = torch.is_grad_enabled()  # they will be derived in their turn
        with torch.enable_grad():
            stand_ins = [
                tensor.view_as(tensor) if again else
                tensor.detach().requires_grad_(tensor.requires_grad)
                for tensor in saved]
            results = self.compute_again(saved, stand_ins)
        pairs = [(result, gradient) for result, gradient
                 in zip(results, gradients)
                 if gradient is not None and result.requires_grad]
        wanted = [one for one, wants in zip(stand_ins, is_wanted) if wants]
        derived = iter(torch.autograd.grad(
            [result for result, _ in pairs], wanted,
            [gradient for _, gradient in pairs],
            create_graph=again, allow_unused=True) if pairs else ())
        self.model.__dict__["_weft_kinds"]["trained"] = True
        return [next(derived, None) if wants else None for wants in is_wanted]


class _WeftOriginal(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args, **kwargs):
        return self.model.forward_reference(*args, **kwargs)


class _WeftDerived(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, *saved):
        ctx.call = call
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        results = call.compute(saved)
        ctx.mark_non_differentiable(*[
            result for result, has_gradient in zip(results, call.have_gradient)
            if not has_gradient])
        return results

    @staticmethod
    def backward(ctx, *gradients):
        return (None, *ctx.call.derive(
            ctx.saved_tensors, ctx.needs_input_grad[1:], gradients))


def _weft_generators(tensors):
    """States of the generators that a model of these tensors draws from."""
    return [torch.get_rng_state(),
            *[torch.cuda.get_rng_state(tensor.device)
              for tensor in tensors if tensor.is_cuda][:1]]


def _weft_set_generators(tensors, states):
    torch.set_rng_state(states[0])
    for state in states[1:]:
        device = next(tensor.device for tensor in tensors if tensor.is_cuda)
        torch.cuda.set_rng_state(state, device)
