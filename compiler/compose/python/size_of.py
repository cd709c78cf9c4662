

def _weft_size_of(argument, dim):
    """Of a tensor that is found in forward()'s arguments; -1: there is none."""
    try:
        return argument().shape[dim]
    except (AttributeError, IndexError, KeyError, TypeError):
        return -1
