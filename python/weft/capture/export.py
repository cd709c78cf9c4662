"""Runs torch.export on a model and explains what it could not capture."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import traceback
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

from weft.capture import decompositions
from weft.capture.traced_operators import kept_in_traces
from weft.capture.tracer_lock import tracing
from weft.problem import problem as problems, sentences
from weft.problem.problem import Problem, ProblemError
from weft.problem.sentences import first_sentence

if TYPE_CHECKING:
    import torch

    from torch.export import ExportedProgram

DATA_IS_SET = "x.data = y gives a tensor other memory"
#: What the exporter says of tensors that share memory, one of which is written.
SHARED_IS_WRITTEN = "expected compiled_fn to be GraphModule"

# What the exporter says, and what the user can do about it.
REASONS = (
    (
        r"[Dd]ata.?[Dd]ependent|Could not guard|Could not extract specialized|"
        r"unbacked|[Dd]ynamic.?[Oo]utput.?[Ss]hape|failed to unpack.*FakeTensor",
        "data_dependent",
        "what it does depends on the values of a tensor (an if, a loop, .item(), "
        "a shape, a packed sequence, a batch norm's momentum=None): write it with "
        "torch.where and fixed shapes",
    ),
    (
        r"in output, which is not a known type",
        "unsupported",
        "it must return tensors in tuples, lists and dicts",
    ),
    (
        r"Unsupported input type",
        "inputs_do_not_fit",
        "it must take tensors and numbers in tuples, lists and dicts",
    ),
    (
        r"missing nn_module_stack",
        "unsupported",
        "it keeps one of its arguments or buffers as it is for the next call: "
        "write it with self.name.copy_(x)",
    ),
    (DATA_IS_SET, "unsupported", "use x.copy_(y), or another name"),
    (
        r"fake tensor in the exported program constant's list",
        "unsupported",
        "it reaches a tensor in a way that cannot be followed",
    ),
)


#: No exporter means to raise these; RecursionError and NotImplementedError are
#: RuntimeErrors.
INTERNAL_ERRORS = (
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    TypeError,
    UnboundLocalError,
    RecursionError,
    SyntaxError,
)


def export(problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> ExportedProgram:
    """The exported program of model(*inputs), before it is decomposed."""
    import torch

    refuse_scripted(problem, model)
    with explaining(problem, model, inputs):
        program = torch.export.export(model, tuple(inputs), strict=False)
        decompositions.shield_random_calls(program.graph)
        return program


def decompose(
    problem: Problem, model: torch.nn.Module, inputs: list[Any], program: ExportedProgram
) -> ExportedProgram:
    """The functional program of core ATen operators that `program` is. Leaves
    `program` as it is."""
    with explaining(problem, model, inputs):
        decomposed = program.run_decompositions(decompositions.decomposition_table())
        decompositions.prune(decomposed.graph)
        return decomposed


@contextlib.contextmanager
def explaining(problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> Iterator[None]:
    """Within it the exporter runs as capture needs it; what it raises becomes a
    ProblemError."""
    try:
        with prepared_exporter():
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if SHARED_IS_WRITTEN in str(error):
            raise shared_is_written(problem, model, inputs) from error
        raise explained(problem, error) from error


@contextlib.contextmanager
def prepared_exporter() -> Iterator[None]:
    """Within it the exporter follows what capture takes, and prints nothing. It waits for
    the exporter of other threads."""
    import torch

    # The model's own output was printed by its eager run already. The exporter
    # prints its graph before some of its errors.
    quiet = io.StringIO()
    with (
        tracing,
        torch.no_grad(),
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
        decompositions.shapes_of_lstm(),
        kept_in_traces(),
        data_as_detach(),
        replaced_calls(),
        buffers_written_once(),
        state_named_once(),
    ):
        yield


def shared_is_written(problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> ProblemError:
    """The ProblemError for a model that writes into memory of two tensors."""
    from weft.capture import shared_writes

    line, names = shared_writes.find(problem, model, inputs)
    who = " and ".join(names) or "two of its buffers or arguments"
    return ProblemError(
        "unsupported",
        "Model.forward cannot be captured: it writes into memory "
        f"that two tensors share ({who}), and torch.export supports this only for "
        "one tensor with two names",
        file=problem.name,
        line=line,
    )


def refuse_scripted(problem: Problem, model: torch.nn.Module) -> None:
    import torch

    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise ProblemError(
                "unsupported",
                f"{name or 'Model'} is a scripted module, which "
                "cannot be captured: use the module that it was made from",
                file=problem.name,
            )


def data_as_detach() -> contextlib.AbstractContextManager[Any]:
    """Within it x.data is x.detach(), which the exporter can follow."""
    import torch
    from torch.overrides import TorchFunctionMode

    data: Any = torch.Tensor.data

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self,
            function: Any,
            types: object,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:
            if function == data.__get__:
                return args[0].detach()
            if function == data.__set__:
                raise RuntimeError(DATA_IS_SET)
            return function(*args, **(kwargs or {}))

    return Mode()


@contextlib.contextmanager
def replaced_calls() -> Iterator[None]:
    """Within it, calls that the exporter cannot follow are calls that it can, and
    PyTorch's own checks of values are left out."""
    from weft.capture import value_checks
    from weft.capture.combinations import Combinations
    from weft.capture.covariance import Covariances
    from weft.capture.ctc_loss import CtcLosses
    from weft.capture.random_integers import RandomIntegers

    with Covariances(), Combinations(), CtcLosses(), RandomIntegers(), value_checks.left_out():
        yield


@contextlib.contextmanager
def buffers_written_once() -> Iterator[None]:
    """What forward() binds to a buffer's name is written into that buffer by
    attribute_state.write_back. The exporter would do so a second time, and does not
    know one tensor that two names are bound to."""
    from torch.export import _trace as tracing

    name = "register_buffer_assignment_hook"
    known = getattr(tracing, name, None)
    if known is None:
        yield
        return
    setattr(tracing, name, lambda model, assigned: types.SimpleNamespace(remove=lambda: None))
    try:
        yield
    finally:
        setattr(tracing, name, known)


@contextlib.contextmanager
def state_named_once() -> Iterator[None]:
    """The exporter sees one name, the first, of a parameter or buffer with several
    (a shared module, tied weights). It cannot follow writes into a buffer that it
    knows by two names."""
    import torch

    def patched(name: str) -> contextlib.AbstractContextManager[Any]:
        known = getattr(torch.nn.Module, name)

        def named(
            self: torch.nn.Module,
            prefix: str = "",
            recurse: bool = True,
            remove_duplicate: bool = True,
        ) -> Any:
            # Other callers need all names: _reparametrize_module, other threads.
            caller = sys._getframe(1).f_globals.get("__name__", "")
            is_exporter = caller.startswith(("torch.export", "torch._export"))
            return known(self, prefix, recurse, remove_duplicate or is_exporter)

        return mock.patch.object(torch.nn.Module, name, named)

    with patched("named_parameters"), patched("named_buffers"):
        yield


def explained(problem: Problem, error: BaseException) -> ProblemError:
    """The ProblemError for what the exporter raised."""
    line = problems.last_line_in(problem.path, error) or line_in_text(problem.path, str(error))
    details = "".join(traceback.format_exception(error))

    def told(kind: str, text: str) -> ProblemError:
        return ProblemError(kind, text, file=problem.name, line=line, details=details)

    if problems.is_out_of_memory(error):
        return told(
            "out_of_memory",
            "capturing the model needs more memory than "
            f"there is: {first_sentence(error)}; make its sizes smaller",
        )
    kind, advice = advice_on(error)
    if advice:
        return told(kind, f"Model.forward cannot be captured: {advice} ({first_sentence(error)})")
    if is_internal(error):
        return told("unsupported", f"Model.forward cannot be captured: {internal_error(error)}")
    what = "that line" if line else "it"
    return told(
        "unsupported",
        "Model.forward cannot be captured by torch.export: "
        f"{type(error).__name__}: {first_sentence(error)}; write {what} in "
        "plain tensor operators",
    )


def advice_on(error: BaseException) -> tuple[str, str]:
    """(kind, what the user can do about it) of what the exporter raised; both are
    "" where that is not known."""
    text = f"{type(error).__name__}: {error}"
    return next(
        ((kind, advice) for pattern, kind, advice in REASONS if re.search(pattern, text)), ("", "")
    )


def line_in_text(path: str, text: str) -> int:
    """The last line of the problem file that a message names, or 0."""
    found = re.findall(rf'File "{re.escape(path)}", line (\d+)', text)
    return int(found[-1]) if found else 0


def is_internal(error: BaseException) -> bool:
    """Whether the exporter failed with an error of Python's own, which says nothing
    about the model."""
    return isinstance(error, INTERNAL_ERRORS)


def internal_error(error: BaseException) -> str:
    """The sentence for such an error, without its full stop."""
    return (
        f"internal error of torch.export ({sentences.of_error(error)}): report "
        f"it to PyTorch, with the model and the version {_version()}"
    )


def _version() -> str:
    import torch

    return torch.__version__
