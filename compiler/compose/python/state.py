# Through the modules' own dictionaries: an attribute of a module takes ten
# times as long to find, and a large model has hundreds. What PyTorch's
# compiler guards tensors with compares all of them in the time of four; it
# looks at more (their class, whether they require gradients), so what it does
# not know again is looked at in our own way. Another PyTorch may have no such
# thing.
_weft_names = [(path, [name for name, *_ in tensors])
               for path, tensors in _weft_modules]
_weft_looks = [look for _, tensors in _weft_modules for _, *look in tensors]
_weft_guards = getattr(torch._C._dynamo.guards, "TensorGuards", None)
_weft_known = None  # such guards of what was last found to fit


def _weft_state(model):
    """The model's own tensors that forward() reads; None if one does not look
    as it did when the model was captured."""
    global _weft_known
    found = []
    for path, names in _weft_names:
        module = model
        for name in path:
            inner = module._modules.get(name)
            module = getattr(module, name) if inner is None else inner
        parameters, buffers = module._parameters, module._buffers
        for name in names:
            tensor = parameters.get(name)
            if tensor is None:
                tensor = buffers.get(name)
            if tensor is None:
                tensor = getattr(module, name, None)
            found.append(tensor)
    if _weft_known is None or not _weft_known.check(*found):
        if not all(_weft_fits(tensor, *look)
                   for tensor, look in zip(found, _weft_looks)):
            return None
        # They know no tensor twice, as one under two names would be.
        if _weft_guards is not None and len(set(found)) == len(found):
            _weft_known = _weft_guards(*found, dynamic_dims_sizes=None,
                                       dynamic_dims_strides=None)
    return found


