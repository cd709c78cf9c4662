"""Cases of kernels from PyTorch's own operator tests (OpInfo): what each
operator is given there, and numbers that are special put in.

A piece is captured as a user's model is, and given to a target's code
generator whole. Outcomes:

    lowered    there is code, and it gives what eager gives
    pytorch    the target has no code for it: the operator stays PyTorch's
    differs    there is code, and it does not
    refused    capture does not take it, and says why in a sentence
    internal   capture does not take it, with an error of Python's own
    crashed    the code generator ended without an answer
"""

import collections
import importlib.util
import os
import subprocess
import tempfile
import traceback
import types
import warnings

import torch
from torch.utils import _pytree

import backward_cases
import captured_cases
from operator_tests import op_db
from weft.capture import export as capture_export
from weft.problem.problem import ProblemError

#: What draws numbers, depends on the memory that it is given, or is no model's.
LEFT_OUT = (
    "rand",
    "normal",
    "bernoulli",
    "multinomial",
    "dropout",
    "uniform",
    "cauchy",
    "exponential",
    "geometric",
    "empty",
    "new_empty",
    "item",
    "tolist",
    "to_sparse",
    "sparse",
    "jiterator",
    "_refs",
    "masked.",
    "resize",
    "as_strided",
    "set_",
    "stft",
    "istft",
    "rrelu",
    "__getitem__",
    "equal",
    "allclose",
    "is_",
    "nonzero",
    "unique",
    "svd",
    "pca",
    "lu",
    "eig",
    "lstsq",
    "qr",
    "ormqr",
    "geqrf",
    "cholesky",
    "householder",
    "ldl",
    "torch.ops",
)
ELEMENTS_MAX = 20_000
SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 1e-40, 65_504.0, 90.0)

#: Sums of products: linear in each of their tensors.
PRODUCTS = (
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "einsum",
    "inner",
    "linalg.multi_dot",
    "matmul",
    "__rmatmul__",
    "mm",
    "mv",
    "tensordot",
    "nn.functional.conv",
    "nn.functional.linear.",
    "kron",
    "nn.functional.bilinear",
)

Case = collections.namedtuple("Case", "name function inputs")


def operators(dtype, wanted=None, left_out=LEFT_OUT):
    """`wanted`: names with or without their variant ("div", "div.floor_rounding")."""
    for op in op_db:
        name = op.name
        if wanted is not None and not {name, op.full_name} & set(wanted):
            continue
        if wanted is None and name.startswith(left_out):
            continue
        if dtype in op.supported_dtypes("cpu"):
            yield op


def tests_of(dtype, full_name):
    """The operator tests of exactly that name: "div" is not "div.floor_rounding"."""
    return [op for op in operators(dtype, {full_name}) if op.full_name == full_name]


def case_name(dtype, full_name, index, samples_max, cases_max, gradients):
    """The name of the case that cases_of() makes of the index-th of all samples of the
    tests of that name."""
    for op in tests_of(dtype, full_name):
        tried = tried_samples_of(op, dtype, samples_max, cases_max, gradients)
        if index < len(tried):
            return f"{full_name}.{tried[index][0]}" + ("+gradient" if gradients else "")
        index -= len(tried)
    raise IndexError(full_name)


def samples_of(op, dtype, samples_max, cases_max=None):
    """(label, sample) of so many, evenly chosen; None: of all, and each again with
    gaps between its elements, and with its channels last: of these `cases_max`,
    evenly chosen."""
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    if samples_max is not None:
        step = max(1, len(samples) // samples_max)
        return list(enumerate(samples[::step][:samples_max]))
    found = list(enumerate(samples))
    for number, sample in enumerate(samples):
        found.append((f"{number}+gaps", sample.noncontiguous()))
        last = sample.transform(channels_last)
        if not same_layouts(last, sample):
            found.append((f"{number}+last", last))
    if cases_max is not None and len(found) > cases_max:
        found = [found[i * len(found) // cases_max] for i in range(cases_max)]
    return found


def channels_last(leaf):
    """A tensor of images or volumes with its channels innermost; else the same."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if not isinstance(leaf, torch.Tensor) or leaf.dim() not in formats:
        return leaf
    return leaf.contiguous(memory_format=formats[leaf.dim()])


def same_layouts(one, other):
    strides = [
        [
            leaf.stride()
            for leaf in _pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
            if isinstance(leaf, torch.Tensor)
        ]
        for sample in (one, other)
    ]
    return strides[0] == strides[1]


def tried_samples_of(op, dtype, samples_max, cases_max, gradients):
    """samples_of(), the same at each call; none where PyTorch's own test has none
    in this build, or there are no derivatives that `gradients` asks for."""
    if gradients and not (op.supports_autograd and dtype.is_floating_point):
        return []
    torch.manual_seed(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return samples_of(op, dtype, samples_max, cases_max)
    except Exception:
        return []


def cases_of(
    op,
    dtype,
    samples_max=3,
    specials=True,
    gradients=False,
    cases_max=None,
    which=slice(None),
):
    """Some of the operator's samples (samples_of), as functions of their tensors;
    with `gradients`, their derivatives instead. `which`: of the samples, a part."""
    cases = []
    for number, sample in tried_samples_of(op, dtype, samples_max, cases_max, gradients)[which]:
        case = case_of(f"{op.full_name}.{number}", op, sample, as_given=samples_max is None)
        if gradients:
            case = case and gradient_of(case)
            if case is not None:
                cases.append(case)
            continue
        if case is None:
            continue
        cases.append(case)
        if specials and number == 0 and dtype.is_floating_point:
            case = with_specials(case)
            if case is not None:
                cases.append(case)
    return cases


def gradient_of(case):
    """The case's derivatives by its tensors, or None where it has none."""
    if any(t.numel() == 0 for t in case.inputs):
        return None
    try:
        made = Case(
            *backward_cases.backward_case(
                case.name + "+gradient", lambda *tensors: case.function(*tensors)[0], *case.inputs
            )
        )
    except Exception:  # it has no derivative, or AOTAutograd takes none of it
        return None
    return made if is_fit(made) else None


def case_of(name, op, sample, as_given=False):
    """`as_given`: with the strides of the sample, and without elements, too."""
    leaves, tree = _pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    inputs = tuple(leaves[i].detach() if as_given else leaves[i].detach().clone() for i in places)

    def function(*tensors):
        now = list(leaves)
        for i, tensor in zip(places, tensors):
            now[i] = tensor
        args, kwargs = _pytree.tree_unflatten(now, tree)
        return [
            t for t in _pytree.tree_leaves(op.op(*args, **kwargs)) if isinstance(t, torch.Tensor)
        ]

    case = Case(name, function, inputs)
    return case if is_fit(case, as_given) else None


def with_specials(case):
    """The same, with special numbers among those of the first tensor."""
    first = case.inputs[0]
    if not first.is_floating_point() or first.numel() < 12:
        return None
    changed = first.clone()
    flat = changed.view(-1) if changed.is_contiguous() else None
    if flat is None:
        return None
    for i, value in enumerate(SPECIAL):
        flat[(i * 7 + 3) % flat.numel()] = value
    made = Case(case.name + "+special", case.function, (changed, *case.inputs[1:]))
    return made if is_fit(made) else None


def is_fit(case, takes_empty=False):
    """Some elements, if not `takes_empty`, not too many, and the same result
    twice."""
    least = 0 if takes_empty else 1
    if not case.inputs or any(
        t.numel() < least or t.numel() > ELEMENTS_MAX or t.is_complex() or t.layout != torch.strided
        for t in case.inputs
    ):
        return False
    try:
        first, again = (case.function(*map(captured_cases.copy_of, case.inputs)) for _ in range(2))
    except Exception:  # some of their samples are meant to fail
        return False
    return bool(first) and all(
        t.numel() >= least
        and t.layout == torch.strided
        and not t.is_complex()
        and torch.equal(t.nan_to_num(), u.nan_to_num())
        for t, u in zip(first, again)
    )


def graphs_of(cases):
    """For each its graph, or why_refused(); one by one where they fail together."""
    try:
        with warnings.catch_warnings(), capture_export.prepared_exporter():
            warnings.simplefilter("ignore")
            return captured_cases.graphs_of(cases)
    except Exception as error:
        if len(cases) == 1:
            return [why_refused(error)]
        half = len(cases) // 2
        return graphs_of(cases[:half]) + graphs_of(cases[half:])


def why_refused(error):
    """(outcome, the message that capture gives the user)."""
    if isinstance(error, ProblemError):
        return "refused", error.message
    problem = types.SimpleNamespace(path=__file__, name="case")
    message = capture_export.explained(problem, error).message
    return captured_cases.kind_of(message), message


def judge(case, got):
    """What is wrong with those results, or None."""
    eager = case.function(*case.inputs)
    terms = terms_of(case, eager)
    try:
        truth = case.function(*(t.double() if t.is_floating_point() else t for t in case.inputs))
    except Exception:  # not every operator takes float64 there
        truth = eager
    if len(got) != len(eager):
        return f"{len(got)} results for {len(eager)}"
    for mine, theirs, exact, most in zip(got, eager, truth, terms):
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            return f"{mine.dtype} {tuple(mine.shape)} for {theirs.dtype} {tuple(theirs.shape)}"
        if not mine.dtype.is_floating_point:
            if not torch.equal(mine, theirs):
                return "other integers"
            continue
        eps = torch.finfo(mine.dtype).eps
        mine, theirs, exact = mine.double(), theirs.double(), exact.double()
        same = (mine == theirs) | (mine.isnan() & theirs.isnan())
        same |= (mine == exact) | (mine.isnan() & exact.isnan())
        theirs_off = (theirs - exact).abs().nan_to_num(0, 0, 0)
        scale = exact.abs().nan_to_num(0, 0, 0)
        largest = scale.max() if scale.numel() else 0
        limit = 8 * theirs_off + 32 * eps * scale + 8 * eps * min(largest, 1)
        limit += 4 * eps * most
        wrong = ~(same | ((mine - theirs).abs() <= limit))
        if wrong.any():
            return f"{mine[wrong][0].item():.9g} for {theirs[wrong][0].item():.9g} of eager"
    return None


def terms_of(case, eager):
    """For each result what it sums up, without signs, where it is a product: by
    that its rounding goes, and not by what is left of it."""
    if not case.name.startswith(PRODUCTS) or not eager[0].is_floating_point():
        return [0.0] * len(eager)
    return case.function(
        *(t.double().abs().nan_to_num(0, 0, 0) if t.is_floating_point() else t for t in case.inputs)
    )


def outcomes(variant, cases, batch=24):
    """(name, outcome, reason) of each, in that variant of a target."""
    captured = []
    for start in range(0, len(cases), batch):
        part = cases[start : start + batch]
        captured += list(zip(part, graphs_of(part)))
    found = [(case.name, *graph) for case, graph in captured if isinstance(graph, tuple)]
    captured = [(case, graph) for case, graph in captured if not isinstance(graph, tuple)]
    answers = answers_of(variant, [graph for _, graph in captured])
    good = []
    for (case, graph), answer in zip(captured, answers):
        if "crash" in answer:
            found.append((case.name, "crashed", answer["crash"]))
        elif "error" in answer:
            found.append((case.name, "pytorch", answer["error"]))
        else:
            good.append((case, graph, answer))
    if not good:
        return found
    with tempfile.TemporaryDirectory() as folder:
        built = variant.build(
            [graph for _, graph, _ in good], [answer for _, _, answer in good], folder
        )
        for (case, _, _), functions in zip(good, built):
            found.append((case.name, *outcome(case, functions, getattr(variant, "device", "cpu"))))
    return found


def answers_of(variant, graphs):
    """What the code generator says of each; {"crash": how} where it ends."""
    try:
        return variant.generate(graphs, ()) if graphs else []
    except subprocess.CalledProcessError as error:
        if len(graphs) == 1:
            return [{"crash": f"ends with {error.returncode}"}]
        half = len(graphs) // 2
        return answers_of(variant, graphs[:half]) + answers_of(variant, graphs[half:])


def outcome(case, functions, device="cpu"):
    if device != "cpu":
        before = case
        case = case._replace(inputs=tuple(captured_cases.copy_of(t, device) for t in case.inputs))
        refused = why_not_there(before, case)
        if refused:
            return "refused", refused
    for function in functions.values():
        try:
            wrong = judge(case, function(list(case.inputs)))
        except Exception as error:
            wrong = traceback.format_exception_only(error)[-1].strip()
        if wrong:
            return "differs", wrong
    return "lowered", ""


def why_not_there(case, moved):
    """Why a piece that was captured on the processor is none on a device, or ""."""
    try:
        here, there = (one.function(*one.inputs) for one in (case, moved))
    except Exception as error:  # it names the processor, say
        return traceback.format_exception_only(error)[-1].strip()
    if any(t.device != moved.inputs[0].device for t in there):
        return "gives its result elsewhere"
    types = [[t.dtype for t in one] for one in (here, there)]
    return "" if types[0] == types[1] else "other types on the device"


def variant_of(target, device="cpu"):
    """How that target's kernels are built and run: on the current GPU, or without."""
    if device == "cuda" and target == "triton":
        return GpuVariant("triton", "text", ("16",))
    if device == "cuda" and target == "cuda":
        return GpuVariant("cuda", "module", ("8", "232448"))
    if target == "cpu":
        from cpu_kernels import CpuVariant

        return CpuVariant("opinfo", 0, 2, 64, 0, 1, "-O1")
    if target == "triton":
        from triton_kernels import TritonVariant

        return TritonVariant("opinfo", 0, 1, multiprocessors=132)
    if target == "cuda":
        from cuda_on_host import CudaVariant

        return CudaVariant("opinfo", 0, 1, multiprocessors=132)
    raise ValueError(f"no target '{target}': cpu, triton or cuda")


class GpuVariant:
    """A target's kernels on the current GPU, against eager there. `source`: the
    field of its generator's answer that is a module with kernel_function."""

    device = "cuda"

    def __init__(self, target, source, device_facts):
        self._target, self._source = target, source
        self._facts = device_facts

    def generate(self, graphs, options):
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        cli = captured_cases.program(
            f"{self._target}_codegen_cli", f"WEFT_{self._target.upper()}_CODEGEN"
        )
        return captured_cases.generate(graphs, [cli, str(sms), *self._facts, *options])

    def build(self, graphs, answers, folder):
        del graphs
        os.environ["WEFT_KERNEL_CACHE"] = folder
        return [
            {
                answer["variants"][0]["variant"]: opened(
                    answer["variants"][0][self._source], folder, number
                )
            }
            for number, answer in enumerate(answers)
        ]


def opened(text, folder, number):
    """A source's kernel_function: Triton reads its file again later."""
    path = os.path.join(folder, f"opinfo_{number}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location(f"opinfo_{number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(inputs):
        return captured_cases.as_list(module.kernel_function(*inputs))

    return run
