# Two ways to the same answer: by the texts of the table above, which takes
# microseconds, and then in each call by the very objects that had these texts,
# in the modules' own dictionaries. No tensor and no module is held. What may
# change in itself (a list) is written out anew.
# The same, and of each what its class and settings were when last looked at.
_weft_noted = [(part[0], part[1], None, 0, (), (), ())
               for part in _weft_parts]


def _weft_text(value):
    """What stands for a setting."""
    if isinstance(value, torch.Tensor):
        return ""
    if isinstance(value, type):
        own = value.__module__ == __name__
        return ("" if own else value.__module__) + "." + value.__qualname__
    return getattr(value, "__name__", None) or repr(value)


def _weft_lasts(value):
    """Whether it stays what it is as long as it is bound to its name."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _weft_recognised(index, part):
    """Whether that part is as it was captured; then it is noted."""
    above, name, kind, hooks, size, settings, absent, empty = (
        _weft_parts[index])
    held = part.__dict__
    found = tuple(
        getattr(hook, "__name__", None) or _weft_text(type(hook))
        for key in ("_forward_pre_hooks", "_forward_hooks")
        for hook in held.get(key, {}).values())
    # The model's own hooks run whatever its forward() is.
    if name and (_weft_text(type(part)) != kind or found != hooks):
        return False
    if (len(held["_modules"]) != size
            or any(key in held for key in absent)
            or any(_weft_any(held, key) is not None for key in empty)
            or any(key not in held or _weft_text(held[key]) != text
                   for key, text in settings.items())):
        return False
    _weft_noted[index] = (
        above, name, type(part), size,
        tuple((key, held[key]) for key in settings if _weft_lasts(held[key])),
        absent,
        tuple((key, None) for key in empty)
        + tuple((key, text) for key, text in settings.items()
                if not _weft_lasts(held[key])))
    return True


def _weft_any(held, key):
    """The module's parameter, buffer or part of that name."""
    return held["_parameters"].get(
        key, held["_buffers"].get(key, held["_modules"].get(key)))


def _weft_rest(held, rest):
    """Whether that is so, too: what is empty, and what may change in itself."""
    return all(_weft_any(held, key) is None if text is None
               else _weft_text(held[key]) == text for key, text in rest)


def _weft_as_captured(model):
    """Whether the model's parts, and what forward() reads of them besides
    tensors, are what they were when the model was captured."""
    found = []  # their dictionaries
    try:
        for above, name, kind, size, settings, absent, rest in _weft_noted:
            part = found[above]["_modules"].get(name) if found else model
            held = part.__dict__
            found.append(held)
            same = (type(part) is kind and len(held["_modules"]) == size
                    and not held["_forward_hooks"]
                    and not held["_forward_pre_hooks"])
            for key, value in settings:
                if held[key] is not value:
                    same = False
            for key in absent:
                if key in held:
                    same = False
            if same and (not rest or _weft_rest(held, rest)):
                continue
            if not _weft_recognised(len(found) - 1, part):
                return False
    except (AttributeError, KeyError):
        return False  # it has no such part, or no such setting
    return True


