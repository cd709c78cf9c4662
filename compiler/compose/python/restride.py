def _weft_restride(tensor, shape, stride):
    """The tensor in the layout that a kernel was made for."""
    if all(a == b or n == 1
           for n, a, b in zip(shape, tensor.stride(), stride)):
        return tensor
    moved = torch.empty_strided(shape, stride, dtype=tensor.dtype,
                                device=tensor.device)
    return moved.copy_(tensor)


