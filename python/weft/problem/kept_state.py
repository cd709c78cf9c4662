"""What a model's forward() keeps for its next call in attributes of its own.

A recurrent model may hold its hidden state as a plain tensor, and bind another
to that name in each call. Such tensors become buffers here, so that they are
captured, restored and compared as buffers are. Which these are is read in the
problem's source: running forward() would tell of one path through it alone.
"""

import ast
import contextlib

import torch
from torch.utils import _pytree as pytree

from weft.device.arena import same_bytes
from weft.problem.problem import MODULE_NAME, ProblemError, read_source


def adopt(problem, model):
    """Makes buffers of the plain tensors that the model's methods change; the
    names of these buffers."""
    changed = changed_attributes(read_source(problem.path))
    found = []
    for path, module in model.named_modules():
        for name in sorted(_changed_by(type(module), changed)):
            full = _joined(path, name)
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
    # What is empty yet will get another shape; a class's own value would hide
    # the buffer.
    if (type(value) is not torch.Tensor or value.numel() == 0
            or hasattr(type(module), name)):
        return False
    delattr(module, name)
    # A copy: each name has a value of its own, also if they began with one.
    module.register_buffer(name, value.detach().clone(), persistent=False)
    return True


def _joined(path, name):
    return f"{path}.{name}" if path else name


def _changed_by(kind, changed):
    """By the methods of a class, and of what it derives from in the problem."""
    return set().union(*(changed.get(base.__name__, ()) for base in kind.__mro__
                         if base.__module__ == MODULE_NAME))


def changed_attributes(source):
    """{class: names} of attributes that methods bind or write which forward()
    may come to, by their names: not what __init__ alone calls."""
    methods = [(kind.name, method) for kind in ast.walk(ast.parse(source))
               if isinstance(kind, ast.ClassDef) for method in kind.body
               if isinstance(method, ast.FunctionDef) and method.args.args]
    reached, found = {"forward"}, {}
    while True:
        called = {name for _, method in methods if method.name in reached
                  for name in _called_in(method)} - {"__init__"}
        if called <= reached:
            break
        reached |= called
    for kind, method in methods:
        if method.name in reached:
            found.setdefault(kind, set()).update(_written_in(method))
    return found


@contextlib.contextmanager
def parameters_refused(problem, model):
    """Around a call of the model: ProblemError if it writes a parameter, as
    one does that sets its own in the first call."""
    before = {name: tensor.detach().clone()
              for name, tensor in model.named_parameters()}
    yield
    for name, tensor in model.named_parameters():
        if name in before and not same_values(tensor, before[name]):
            raise written_parameter(problem, name)


def same_values(one, other):
    """Byte by byte."""
    return (one.shape == other.shape and one.dtype == other.dtype
            and same_bytes(*(t.detach().contiguous().reshape(-1)
                             for t in (one, other))))


def written_parameter(problem, name):
    return ProblemError(
        "unsupported", f"Model.forward writes into its parameter {name}, which "
        "a model's calls must leave as it is: set it in __init__, or make it a "
        "buffer", file=problem.name,
        line=_line_of_write(problem, name.rpartition(".")[2]))


def _line_of_write(problem, name):
    """0: it is not seen where."""
    for node in nodes_of_calls(problem):
        for written in _written_by(node):
            if getattr(_whole(written), "attr", None) == name:
                return node.lineno
    return 0


def nodes_of_calls(problem):
    """The source's syntax nodes, in order of lines, but for constructors'."""
    source = ast.parse(read_source(problem.path))
    left_out = {id(node) for method in ast.walk(source)
                if isinstance(method, ast.FunctionDef)
                and method.name == "__init__" for node in ast.walk(method)}
    found = [node for node in ast.walk(source)
             if id(node) not in left_out and hasattr(node, "lineno")]
    return sorted(found, key=lambda node: node.lineno)


def _called_in(method):
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr


def _written_in(method):
    self = method.args.args[0].arg
    for node in ast.walk(method):
        for written in map(_whole, _written_by(node)):
            if (isinstance(written, ast.Attribute)
                    and isinstance(written.value, ast.Name)
                    and written.value.id == self):
                yield written.attr


def _whole(written):
    """self.cache of self.cache[:, step] = ..., and of self.cache.data.add_(1)"""
    while isinstance(written, (ast.Subscript, ast.Starred)) or (
            isinstance(written, ast.Attribute) and written.attr == "data"):
        written = written.value
    return written


def _written_by(node):
    """The expressions whose values that node binds or writes into."""
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
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
    while targets:
        target = targets.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            targets.extend(target.elts)
        else:
            yield target


def write_back(problem, model):
    """From now on the model's buffers stay the tensors that they are: what a
    call binds to their names is written into them at its end."""
    before = []

    def note(module, inputs):
        before[:] = [(path, part._buffers, dict(part._buffers))
                     for path, part in module.named_modules()]

    def settle(module, inputs, result):
        changed = []
        for path, buffers, held in before:
            for name, tensor in held.items():
                now = buffers.get(name)
                if now is tensor or tensor is None:
                    continue
                check_alike(problem, _joined(path, name), tensor, now)
                check_own(problem, _joined(path, name), now, inputs)
                changed.append((buffers, name, tensor, now))
        before.clear()
        with torch.no_grad():
            # All are read before one is written: they may be each other's, and
            # the result one of them.
            values = [now.clone() for *_, now in changed]
            result = pytree.tree_map_only(
                torch.Tensor, lambda leaf: _apart(leaf, changed), result)
            for (buffers, name, tensor, _), value in zip(changed, values):
                buffers[name] = tensor.copy_(value)
        return result

    model.register_forward_pre_hook(note)
    model.register_forward_hook(settle)


def _apart(leaf, changed):
    """It, or a copy where it is a tensor that will be written."""
    base = leaf._base if leaf._is_view() else leaf
    return leaf.clone() if any(base is t for _, _, t, _ in changed) else leaf


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


def check_own(problem, name, now, inputs):
    """A caller that writes into an argument afterwards would write into what is
    kept. (The exporter's own tensors, which have no memory, come later.)"""
    if type(now) is not torch.Tensor:
        return
    held = now.untyped_storage().data_ptr()
    for leaf in pytree.tree_leaves(inputs):
        if (type(leaf) is torch.Tensor and leaf.numel()
                and leaf.untyped_storage().data_ptr() == held):
            raise ProblemError(
                "unsupported", f"Model.forward keeps one of its arguments as it "
                f"is in {name}, where its caller may write: write it with "
                f"self.{name}.copy_(x)", file=problem.name,
                line=_line_of_write(problem, name.rpartition(".")[2]))
