# After step_part.py, in files of their own: forward() becomes a few steps of
# gradient descent with momentum, by a copy of the model.
import copy as _weft_copy

#: A step moves the parameters by so much of their own norm.
_WEFT_RATE = 1e-3
_WEFT_MOMENTUM = 0.9


def _weft_loss(results, gradients):
    """How far the results go along those directions."""
    return sum((one * way).mean() for one, way in zip(results, gradients, strict=True))


def _weft_norm(tensors):
    return sum(
        (one.detach().double().square().sum() for one in tensors),
        start=torch.zeros((), dtype=torch.double),
    ).sqrt()


def _weft_rate(parameters):
    """Of the first step, whose gradients are there."""
    moved = [one for one in parameters if one.grad is not None]
    slope = _weft_norm([one.grad for one in moved])
    return float(_WEFT_RATE * _weft_norm(moved) / slope) if slope > 0 else 0.0


@torch.no_grad()
def _weft_descend(parameters, speeds, rate):
    """As torch.optim.SGD does it, which would load Dynamo: that takes seconds
    in each process."""
    for one, speed in zip(parameters, speeds):
        if one.grad is not None:
            one.sub_(speed.mul_(_WEFT_MOMENTUM).add_(one.grad), alpha=rate)
            one.grad = None


def _weft_training(self, *given):
    """The losses of these steps."""
    inputs, _, gradients = _weft_split(given)
    model, losses, rate = _weft_copy.deepcopy(self), [], None
    parameters = [one for one in model.parameters() if one.requires_grad]
    speeds = [torch.zeros_like(one, requires_grad=False) for one in parameters]
    with torch.enable_grad():
        for _ in range(_weft_steps):
            _, trained = _weft_results(model, inputs)
            loss = _weft_loss(trained, gradients)
            loss.backward()
            losses.append(loss.detach())
            rate = _weft_rate(parameters) if rate is None else rate
            _weft_descend(parameters, speeds, rate)
    return torch.stack(losses)


_weft_class.forward = _weft_training
