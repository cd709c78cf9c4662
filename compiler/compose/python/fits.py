
def _weft_fits(tensor, shape, stride, dtype):
    """Whether the tensor looks as it did when the model was captured."""
    return (isinstance(tensor, torch.Tensor) and tensor.shape == shape
            and tensor.dtype is dtype and {device}
            and tensor.layout is torch.strided
            and (tensor.stride() == stride or all(
                a == b or n <= 1
                for n, a, b in zip(shape, tensor.stride(), stride))))


