"""What a model's forward() keeps for its next call in attributes of its own.

A recurrent model may hold its hidden state as a plain tensor, and bind another
to that name in each call. Such tensors become buffers here, so that they are
captured, restored and compared as buffers are. Which these are is read in the
problem's source: running forward() would tell of one path through it alone.
"""

import ast

import torch

from .problem import MODULE_NAME, ProblemError, read_source


def adopt(problem, model):
    """Makes buffers of the plain tensors that the model's methods change; the
    names of these buffers."""
    changed = changed_attributes(read_source(problem.path))
    found = []
    for path, module in model.named_modules():
        for name in sorted(_changed_by(type(module), changed)):
            full = f"{path}.{name}" if path else name
            if adopt_named(model, full):
                found.append(full)
    return found


def adopt_named(model, full):
    """Makes a buffer of the plain tensor of that name; whether there is one."""
    path, _, name = full.rpartition(".")
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return False
    value = vars(module).get(name)
    if type(value) is not torch.Tensor:
        return False
    delattr(module, name)
    module.register_buffer(name, value.detach(), persistent=False)
    return True


def _changed_by(kind, changed):
    """By the methods of a class, and of what it derives from in the problem."""
    return set().union(*(changed.get(base.__name__, ()) for base in kind.__mro__
                         if base.__module__ == MODULE_NAME))


def changed_attributes(source):
    """{class: names} of attributes that methods but __init__ bind or write."""
    found = {}
    for kind in ast.walk(ast.parse(source)):
        if not isinstance(kind, ast.ClassDef):
            continue
        for method in kind.body:
            if (isinstance(method, ast.FunctionDef) and method.args.args
                    and method.name != "__init__"):
                found.setdefault(kind.name, set()).update(_written_in(method))
    return found


def _written_in(method):
    self = method.args.args[0].arg
    for node in ast.walk(method):
        for written in _written_by(node):
            while isinstance(written, (ast.Subscript, ast.Starred)):
                written = written.value  # self.cache[:, step] = ...
            if (isinstance(written, ast.Attribute)
                    and isinstance(written.value, ast.Name)
                    and written.value.id == self):
                yield written.attr


def _written_by(node):
    """The expressions whose values that node binds or writes into."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Call):
        targets = [word.value for word in node.keywords if word.arg == "out"]
        called = node.func  # self.count.add_(1)
        if (isinstance(called, ast.Attribute) and called.attr.endswith("_")
                and not called.attr.endswith("__")):
            targets.append(called.value)
    else:
        return
    for target in targets:
        is_several = isinstance(target, (ast.Tuple, ast.List))
        yield from target.elts if is_several else [target]


def write_back(problem, model):
    """From now on the model's buffers stay the tensors that they are: what a
    call binds to their names is written into them at its end."""
    before = []

    def note(module, inputs):
        before[:] = [(path, part._buffers, dict(part._buffers))
                     for path, part in module.named_modules()]

    def settle(module, inputs, result):
        with torch.no_grad():
            for path, buffers, held in before:
                for name, tensor in held.items():
                    now = buffers.get(name)
                    if now is tensor or tensor is None:
                        continue
                    full = f"{path}.{name}" if path else name
                    check_alike(problem, full, tensor, now)
                    buffers[name] = tensor.copy_(now)
        before.clear()

    model.register_forward_pre_hook(note)
    model.register_forward_hook(settle)


def check_alike(problem, name, tensor, now):
    what = type(now).__name__
    if isinstance(now, torch.Tensor):
        if now.dtype == tensor.dtype and now.shape == tensor.shape:
            return
        what = f"{now.dtype} {list(now.shape)}"
    raise ProblemError(
        "unsupported", f"Model.forward binds {name}, which was {tensor.dtype} "
        f"{list(tensor.shape)}, to {what}: what it keeps for the next call must "
        "keep its shape", file=problem.name)
