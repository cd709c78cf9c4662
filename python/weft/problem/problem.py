"""Loads a problem: a Python file with Model, get_inputs and get_init_inputs.

Every fault of the file is a ProblemError that names what, where and what to do. The file is
the user's, and a trace through weft's frames would not help.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from weft.problem import network, sentences

if TYPE_CHECKING:
    import torch

SEED = 42
MODULE_NAME = "weft_problem"
TORCH_OLDEST = (2, 6)
#: As the constructor leaves the model, or as .eval() and .train() do.
MODES = ("as-is", "eval", "train")
NAMES_NEEDED = ("Model", "get_inputs", "get_init_inputs")
MESSAGE_LENGTH_MAX = 1000
DETAILS_LENGTH_MAX = 20000

# What the framework's CPU and CUDA allocators say when memory runs out, and
# cuBLAS and its like of their own; most raise a plain RuntimeError, so that the
# text is all there is.
OUT_OF_MEMORY_TEXTS = (
    "STATUS_ALLOC_FAILED",
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "Cannot allocate memory",
)


class ProblemError(Exception):
    """What is wrong with a problem; `code` is one of messages/result.hpp's."""

    def __init__(
        self,
        kind: str,
        message: str,
        code: str = "wrong_input",
        file: str = "",
        line: int = 0,
        details: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind
        self.message = message
        self.file = file
        self.line = line
        self.details = details

    def to_json(self) -> dict[str, Any]:
        """The `error` object of a reply."""
        return {
            "code": self.code,
            "kind": self.kind,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            # The end of a trace tells more than its beginning.
            "details": self.details[-DETAILS_LENGTH_MAX:],
        }


@dataclasses.dataclass
class Problem:
    """A loaded problem file; `path` is absolute."""

    path: str
    module: ModuleType
    #: That its model is put in: one of MODES.
    mode: str = "as-is"
    #: Of its model, once that is built: buffers that were plain attributes
    #: (attribute_buffers.py).
    adopted: list[str] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def import_torch() -> ModuleType:
    """The framework, or ProblemError 'missing' if there is none or too old."""
    try:
        import torch
    except (ImportError, OSError) as error:
        raise ProblemError(
            "torch_missing",
            f"this Python ({sys.executable}) cannot import torch: "
            f"{short(error)}; install torch >= {oldest()}, or choose another "
            "Python",
            code="missing",
            details=traceback.format_exc(),
        ) from None
    if torch_version(torch.__version__) < TORCH_OLDEST:
        raise ProblemError(
            "torch_too_old",
            f"torch {torch.__version__} is too old: install torch >= "
            f"{oldest()} for {sys.executable}, or choose another Python",
            code="missing",
        )
    return torch


def oldest() -> str:
    return ".".join(str(part) for part in TORCH_OLDEST)


def torch_version(text: str) -> tuple[int, int]:
    """(2, 13) of "2.13.0+cpu"; (0, 0) of what does not look like a version."""
    parts = text.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return (0, 0)
    return (int(parts[0]), int(parts[1]))


def short(error: BaseException) -> str:
    """The exception as one paragraph without its type's module."""
    return sentences.whole_sentences(str(error), MESSAGE_LENGTH_MAX) or type(error).__name__


def internal_error(what: str) -> str:
    """The message for a fault of weft's own."""
    return (
        f"internal error: {what}. This is a fault of weft, not of the model: "
        "report it, with the problem file and the details"
    )


def last_line_in(path: str, error: BaseException | None) -> int:
    """Line of the innermost frame of `error` or its causes in `path`, or 0."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = traceback.extract_tb(error.__traceback__)
        for frame in reversed(frames):
            if os.path.abspath(frame.filename) == path:
                return frame.lineno or 0
        error = error.__cause__ or error.__context__
    return 0


def is_out_of_memory(error: BaseException) -> bool:
    """Whether that exception says that memory ran out."""
    if (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    ):  # the framework's
        return True
    if getattr(error, "name", "") == "CUDA_ERROR_OUT_OF_MEMORY":  # the driver's
        return True
    return isinstance(error, (RuntimeError, OSError)) and any(
        text in str(error) for text in OUT_OF_MEMORY_TEXTS
    )


@contextlib.contextmanager
def blaming(path: str, kind: str, what: str, advice: str) -> Iterator[None]:
    """Turns what the user's code raises into a ProblemError of that kind.

    `what` opens the message ("Model's constructor"), `advice` closes it.
    SystemExit counts too: a problem that exits must not end the worker.
    """
    try:
        yield
    except ProblemError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        line = last_line_in(path, error)
        details = "".join(traceback.format_exception(error))
        if is_out_of_memory(error):
            raise ProblemError(
                "out_of_memory",
                f"{what} needs more memory than there is: {short(error)}; "
                "make the problem's sizes smaller, or use a machine with more "
                "memory",
                file=os.path.basename(path),
                line=line,
                details=details,
            ) from None
        if network.is_wanted(error):
            raise ProblemError(
                "no_network",
                f"{what} {network.WANTED}, which no problem has here "
                f"({type(error).__name__}: {short(error)}): run its file with "
                f"{sys.executable} once where there is one, with Model built, "
                "so that Hugging Face's cache (HF_HUB_CACHE) has what it loads",
                code="missing",
                file=os.path.basename(path),
                line=line,
                details=details,
            ) from None
        raise ProblemError(
            kind,
            f"{what} raised {type(error).__name__}: {short(error)}; {advice}",
            file=os.path.basename(path),
            line=line,
            details=details,
        ) from None


def read_source(path: str) -> bytes:
    """The text of the problem file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise ProblemError("missing_file", f"no such file: {path}; check the path") from None
    except IsADirectoryError:
        raise ProblemError(
            "unreadable", f"{path} is a directory: name the problem's Python file"
        ) from None
    except OSError as error:
        raise ProblemError(
            "unreadable", f"cannot read {path}: {error.strerror}; check its permissions"
        ) from None


def compile_source(source: bytes | str, path: str) -> CodeType:
    """The code object of the problem file."""
    name = os.path.basename(path)
    try:
        if isinstance(source, bytes):
            source.decode("utf-8")  # as all who read the file take it
        return compile(source, path, "exec", dont_inherit=True)
    except UnicodeDecodeError as error:
        raise ProblemError(
            "syntax_error", f"{name} is not UTF-8 (byte {error.start + 1}): save it so", file=name
        ) from None
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise ProblemError(
            "syntax_error",
            f"{name}{where} is not valid Python "
            f"{sys.version_info.major}.{sys.version_info.minor}: {error.msg}; "
            "correct the file",
            file=name,
            line=error.lineno or 0,
            details=traceback.format_exc(),
        ) from None
    except ValueError as error:  # a null byte, on some versions of Python
        raise ProblemError(
            "syntax_error", f"{name} is not valid Python: {error}; correct the file", file=name
        ) from None


def load_problem(path: str, mode: str = "as-is") -> Problem:
    """Runs the problem file as a module of its own, as KernelBench does."""
    path = os.path.abspath(path)
    name = os.path.basename(path)
    code = compile_source(read_source(path), path)
    spec = importlib.util.spec_from_loader(MODULE_NAME, None, origin=path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = path
    # dataclasses and pickling look the module up by its name.
    sys.modules[MODULE_NAME] = module
    with blaming(
        path,
        "import_failed",
        f"importing {name}",
        "a problem is one file that imports only what this Python "
        f"has: {sys.executable} (--python chooses another)",
    ):
        exec(code, module.__dict__)
    for needed in NAMES_NEEDED:
        if not callable(getattr(module, needed, None)):
            raise ProblemError(
                "missing_name",
                f"{name} has no {needed}: a problem defines "
                "class Model, get_inputs() and get_init_inputs()",
                file=name,
            )
    return Problem(path, module, mode)


def init_arguments(model_class: Callable[..., Any], given: Any) -> tuple[list[Any], dict[str, Any]]:
    """(args, kwargs) for the constructor from what get_init_inputs() gave.

    KernelBench calls Model(*given). Two wider forms are in use: a dict of
    keywords, and [[args], {kwargs}], which counts only where the constructor
    could not take those two as its own arguments.
    """
    if given is None:
        return [], {}
    if isinstance(given, dict):
        return [], given
    given = list(given)
    is_pair = len(given) == 2 and isinstance(given[0], (list, tuple)) and isinstance(given[1], dict)
    if is_pair and not binds(model_class, given):
        return list(given[0]), given[1]
    return given, {}


def binds(function: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Whether function(*args) fits its signature."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        return False
    except ValueError:  # a signature that Python cannot see
        return True
    return True


def made_on(device: torch.device | str | None) -> contextlib.AbstractContextManager[Any]:
    """Within it, tensors that name no device are made on that one: gigabytes
    of inputs are then never on the host. None: as it is."""
    import torch

    if device is None or torch.device(device).type == "cpu":
        return contextlib.nullcontext()
    return torch.device(device)


def moved(value: Any, device: torch.device | str | None) -> Any:
    """The same nest of lists and tensors, with all tensors on the device."""
    import torch
    from torch.utils import _pytree as pytree

    if device is None:
        return value
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), value)


def build_model(
    problem: Problem,
    seed: int = SEED,
    device: torch.device | str | None = None,
    adopts: bool = True,
) -> torch.nn.Module:
    """Model(*get_init_inputs()), seeded before each as KernelBench does.
    adopts: what it keeps in attributes becomes buffers."""
    import torch

    from weft.problem import attribute_buffers

    with blaming(
        problem.path,
        "init_inputs_failed",
        "get_init_inputs()",
        "it must return the list of the constructor's arguments",
    ):
        torch.manual_seed(seed)
        model_class = problem.module.Model
        args, kwargs = moved(init_arguments(model_class, problem.module.get_init_inputs()), device)
    with blaming(
        problem.path,
        "constructor_failed",
        "Model's constructor",
        "check it against what get_init_inputs() returns",
    ):
        torch.manual_seed(seed)
        with made_on(device):
            model = model_class(*args, **kwargs)
    if not isinstance(model, torch.nn.Module):
        raise ProblemError(
            "no_module",
            f"Model in {problem.name} is no torch.nn.Module: derive it from torch.nn.Module",
            file=problem.name,
        )
    put_in_mode(model, problem.mode)
    check_initialised(problem, model)
    if adopts:
        problem.adopted = attribute_buffers.adopt(read_source(problem.path), MODULE_NAME, model)
    return model if device is None else model.to(device)


def put_in_mode(model: torch.nn.Module, mode: str) -> None:
    """As a user would, who is about to train it, or to use it."""
    if mode != "as-is":
        model.train(mode == "train")


def check_initialised(problem: Problem, model: torch.nn.Module) -> None:
    """Lazy layers have no parameters before their first call."""
    from torch.nn.parameter import is_lazy

    for named in (model.named_parameters(), model.named_buffers()):
        for name, tensor in named:
            if is_lazy(tensor):
                raise ProblemError(
                    "unsupported",
                    f"{name} of Model in {problem.name} has no "
                    "size before the first call: use a layer that is given "
                    "its sizes",
                    file=problem.name,
                )


def make_inputs(
    problem: Problem, seed: int = SEED, device: torch.device | str | None = None
) -> list[Any]:
    """The list that get_inputs() returns, seeded before, on the device."""
    import torch

    advice = "it must return the list of forward()'s arguments"
    with blaming(problem.path, "inputs_failed", "get_inputs()", advice):
        torch.manual_seed(seed)
        with made_on(device):
            inputs = problem.module.get_inputs()
    if not isinstance(inputs, (list, tuple)):
        raise ProblemError(
            "inputs_failed",
            f"get_inputs() in {problem.name} returned a {type(inputs).__name__}: {advice}",
            file=problem.name,
        )
    return moved(list(inputs), device)


COMPLEX_ADVICE = "use torch.view_as_real, and complex numbers only within forward()"


def refuse_complex(problem: Problem, result: torch.Tensor) -> None:
    """Of complex results nothing is known to say how near they are."""
    if result.is_complex():
        dtype = str(result.dtype).removeprefix("torch.")
        raise ProblemError(
            "unsupported", f"Model's result is {dtype}: {COMPLEX_ADVICE}", file=problem.name
        )


def check_inputs_fit(problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> None:
    """forward() must take as many arguments as get_inputs() gives."""
    try:
        inspect.signature(model.forward).bind(*inputs)
    except TypeError as error:
        raise ProblemError(
            "inputs_do_not_fit",
            f"get_inputs() in {problem.name} returns {len(inputs)} values, "
            f"which Model.forward does not take: {error}; make them agree",
            file=problem.name,
            line=first_line(model.forward, problem.path),
        ) from None
    except ValueError:  # a signature that Python cannot see: running tells
        return


def first_line(function: Callable[..., Any], path: str) -> int:
    """The line where that function begins, if it is defined in `path`."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or os.path.abspath(code.co_filename) != path:
        return 0
    return code.co_firstlineno


def run_forward(problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> Any:
    """model(*inputs) without gradients."""
    import torch

    with blaming(
        problem.path,
        "forward_failed",
        "Model.forward",
        "check it against what get_inputs() returns",
    ):
        with torch.no_grad():
            result = model(*inputs)
    if not any(isinstance(leaf, torch.Tensor) for leaf in torch.utils._pytree.tree_leaves(result)):
        told = "None" if result is None else f"a {type(result).__name__}"
        raise ProblemError(
            "forward_failed",
            f"Model.forward returns {told}, and no tensor: return what it computes",
            file=problem.name,
            line=first_line(model.forward, problem.path),
        )
    return result
