"""Whether ModelNew trains as Model does: its results and gradients against
float64, then a few steps of an optimiser, whose losses must follow eager's.

A process of its own (`main`): what was composed is loaded here, after each of
its kernels was verified in a sandbox.
"""

import copy
import json
import statistics
import sys
import time

import torch
from torch.utils import _pytree as pytree

from weft.expect import compare, summed_terms
from weft.problem import problem as problems

#: Draws of the inputs, and by how much get_inputs()' own are scaled: the first
#: as they are.
SCALES = (1.0, 1.0, 0.25, 2.0)
STEPS = 5
#: Of a step: so much of the parameters' norm.
RATE = 1e-3
#: Losses may differ from eager's by so many times eager's own error against
#: float64, or by this share of the first loss.
LOSS_FACTOR, LOSS_SHARE = 8.0, 1e-4
ROUNDS_MIN, ROUNDS_MAX = 5, 60


class Wrong(Exception):
    """Why ModelNew is not accepted."""


class Subject:
    """Model and ModelNew with the same parameters, and what a step gives."""

    def __init__(self, problem_path, module_path, mode, device, draws):
        self.problem = problems.load_problem(problem_path, mode)
        self.device = device
        self.draws = draws
        self.model = problems.build_model(self.problem, device=device,
                                          adopts=False)
        # Under another name: the problem's module stays loaded.
        name = "weft_composed_training"
        spec = problems.importlib.util.spec_from_file_location(
            name, module_path)
        module = problems.importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        self.module = module
        self.ours = copy.deepcopy(self.model)
        self.ours.__class__ = module.ModelNew

    def inputs(self, seed, scale=1.0):
        given = problems.make_inputs(self.problem, seed, self.device)
        return pytree.tree_map_only(
            torch.Tensor, lambda one: one if scale == 1.0
            or not one.is_floating_point() else
            (one.detach() * scale).requires_grad_(one.requires_grad), given)


def fresh(model):
    """With state of its own, of the same class."""
    return copy.deepcopy(model)


def step(model, inputs, seed, directions=None):
    """{name: tensor} of results, gradients and buffers. `directions` are the
    results' gradients, which are drawn if there are none."""
    torch.manual_seed(seed)
    inputs = pytree.tree_map_only(
        torch.Tensor, lambda one: one.detach().clone().requires_grad_(
            one.requires_grad), inputs)
    results = [one for one in pytree.tree_leaves(model(*inputs))
               if isinstance(one, torch.Tensor)]
    trained = [one for one in results if one.requires_grad]
    if directions is None:
        draw = torch.Generator().manual_seed(seed + 1)
        directions = [torch.randn(one.shape, generator=draw).to(one)
                      for one in trained]
    torch.autograd.backward(
        trained, [one.to(result.dtype) for one, result
                  in zip(directions, trained)])
    found = {f"result {i}": one.detach() for i, one in enumerate(results)}
    found.update((f"gradient of {name}", one.grad)
                 for name, one in model.named_parameters())
    found.update((f"gradient of input {i}", one.grad)
                 for i, one in enumerate(pytree.tree_leaves(inputs))
                 if isinstance(one, torch.Tensor) and one.requires_grad)
    found.update((f"buffer {name}", one.detach().clone())
                 for name, one in model.named_buffers())
    return found, directions


def widened(model, inputs):
    wide = fresh(model).double()
    return wide, pytree.tree_map_only(
        torch.Tensor, lambda one: one.detach().double().requires_grad_(
            one.requires_grad) if one.is_floating_point() else one, inputs)


def check_gradients(subject, told):
    """Every result and gradient, by the error model of every verdict."""
    for case, scale in enumerate(SCALES):
        inputs = subject.inputs(problems.SEED + case, scale)
        expected, directions = step(fresh(subject.model), inputs, case)
        wide = {}
        if not subject.draws:  # float64 draws other numbers
            wide, _ = step(*widened(subject.model, inputs), case, directions)
        ours = fresh(subject.ours)
        got, _ = step(ours, inputs, case, directions)
        if ours.weft_reason:
            raise Wrong("none of its kernels ran: " + ours.weft_reason)
        for name, one in expected.items():
            check_one(f"case {case}: {name}", one, wide.get(name),
                      got.get(name), told)
        told["cases"] = case + 1


def check_one(name, expected, wide, got, told):
    if expected is None or got is None:
        if expected is not got and (
                got is None or bool(got.count_nonzero())):
            raise Wrong(f"{name} is {'none' if got is None else 'there'}, and "
                        f"Model's is {'none' if expected is None else 'there'}")
        return
    if expected.shape != got.shape or expected.dtype != got.dtype:
        raise Wrong(f"{name} is {got.dtype}{list(got.shape)}, and Model's "
                    f"{expected.dtype}{list(expected.shape)}")
    made = compare.expect(name, expected, wide, summed_terms.UNTOLD)
    finding = compare.compare(got.contiguous(), made)
    if finding.reason:
        raise Wrong(f"{name}: {finding.reason}")
    if finding.error * max(told["tolerance"], 1e-300) >= (
            told["error"] * made.tolerance):
        told["error"], told["tolerance"] = finding.error, made.tolerance
        told["framework_error"] = made.framework_error


def losses(model, inputs, directions, rate):
    """Of STEPS steps of gradient descent: how far the results go along the
    drawn directions."""
    model, found = fresh(model), []
    parameters = [one for one in model.parameters() if one.requires_grad]
    if not parameters:
        return found
    optimiser = torch.optim.SGD(parameters, lr=rate, momentum=0.9)
    for number in range(STEPS):
        torch.manual_seed(number)
        optimiser.zero_grad()
        trained = [one for one in pytree.tree_leaves(model(*inputs))
                   if isinstance(one, torch.Tensor) and one.requires_grad]
        loss = sum((one * way.to(one.dtype)).mean()
                   for one, way in zip(trained, directions))
        loss.backward()
        optimiser.step()
        found.append(float(loss.detach()))
    return found


def rate_of(model, inputs, directions):
    """By which a step moves the parameters by RATE of their own size."""
    model = fresh(model)
    torch.manual_seed(0)
    trained = [one for one in pytree.tree_leaves(model(*inputs))
               if isinstance(one, torch.Tensor) and one.requires_grad]
    sum((one * way).mean()
        for one, way in zip(trained, directions)).backward()
    parameters = [one for one in model.parameters() if one.grad is not None]
    size = sum(float(one.detach().double().square().sum())
               for one in parameters) ** 0.5
    slope = sum(float(one.grad.double().square().sum())
                for one in parameters) ** 0.5
    return RATE * size / slope if slope > 0 and size > 0 else 1e-3


def check_steps(subject, told):
    inputs = subject.inputs(problems.SEED)
    _, directions = step(fresh(subject.model), inputs, 0)
    rate = rate_of(subject.model, inputs, directions)
    eager = losses(subject.model, inputs, directions, rate)
    ours = losses(subject.ours, inputs, directions, rate)
    told["losses"], told["eager_losses"] = ours, eager
    allowed = [LOSS_SHARE * abs(eager[0])] * len(eager) if eager else []
    if not subject.draws:
        wide = losses(*widened(subject.model, inputs), directions, rate)
        allowed = [share + LOSS_FACTOR * abs(a - b)
                   for share, a, b in zip(allowed, eager, wide)]
    for number, (a, b, limit) in enumerate(zip(eager, ours, allowed)):
        if not abs(a - b) <= limit:
            raise Wrong(f"step {number} of training comes to a loss of "
                        f"{b:.7g}, and eager to {a:.7g}")


def timed(subject, budget_s, with_compile):
    """Median seconds of a forward and backward pass: ours, eager and
    torch.compile, in turns."""
    inputs = subject.inputs(problems.SEED)
    _, directions = step(fresh(subject.model), inputs, 0)
    parties = {"ours": fresh(subject.ours), "eager": fresh(subject.model)}
    compiled = "compile"
    if with_compile:
        parties[compiled] = torch.compile(fresh(subject.model), dynamic=False)
    times = {name: [] for name in parties}

    def once(model):
        model.zero_grad(set_to_none=True)
        settle(subject.device)
        begin = time.perf_counter()
        trained = [one for one in pytree.tree_leaves(model(*inputs))
                   if isinstance(one, torch.Tensor) and one.requires_grad]
        torch.autograd.backward(trained, directions)
        settle(subject.device)
        return time.perf_counter() - begin

    for model in parties.values():
        for _ in range(3):
            once(model)
    begin = time.monotonic()
    for number in range(ROUNDS_MAX):
        for name, model in parties.items():
            times[name].append(once(model))
        if number + 1 >= ROUNDS_MIN and time.monotonic() - begin > budget_s:
            break
    return {name: statistics.median(found) for name, found in times.items()}


def settle(device):
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def main(text):
    """Judges what the settings name; writes what it found to their `out`."""
    settings = json.loads(text)
    told = {"correct": False, "reason": "", "cases": 0, "error": 0.0,
            "framework_error": 0.0, "tolerance": 0.0}
    try:
        subject = Subject(settings["problem"], settings["module"],
                          settings["mode"], settings["device"],
                          settings["draws"])
        check_gradients(subject, told)
        check_steps(subject, told)
        told["correct"] = True
        told["seconds"] = timed(subject, settings["timing_s"],
                                settings["with_compile"])
    except Wrong as wrong:
        told["reason"] = str(wrong)
    except problems.ProblemError as error:
        told["reason"] = error.message
    except Exception as error:
        told["reason"] = f"{type(error).__name__}: {str(error)[:1000]}"
    with open(settings["out"], "w", encoding="utf-8") as file:
        json.dump(told, file)
    return 0
