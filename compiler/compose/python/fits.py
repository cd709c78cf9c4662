
def _weft_fits(tensor, shape, stride, dtype):
    """Whether the tensor looks as it did when the model was captured."""
    return (type(tensor) in (torch.Tensor, torch.nn.Parameter)
            and tensor.shape == shape and tensor.dtype is dtype and {device}
            and tensor.layout is torch.strided and not tensor.is_neg()
            and (tensor.stride() == stride or all(
                a == b or n <= 1
                for n, a, b in zip(shape, tensor.stride(), stride))))


