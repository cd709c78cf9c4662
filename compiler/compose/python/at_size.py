

def _weft_at_size(get_inputs, size, place):
    """get_inputs() of the same problem at another size of one dimension: that of
    the input with that position (-1: the first tensor), and of each that has as
    many there. What lies along it is repeated, or left out. A problem that knows
    better defines get_inputs_at(size)."""
    import torch
    from torch.utils import _pytree as pytree

    position, dim = place

    def has_it(leaf):
        return isinstance(leaf, torch.Tensor) and leaf.dim() > dim

    def resized(leaf):
        order = sorted(range(leaf.dim()), key=leaf.stride, reverse=True)
        shape = [*leaf.shape[:dim], size, *leaf.shape[dim + 1:]]
        made = torch.empty_permuted(shape, order, dtype=leaf.dtype,
                                    device=leaf.device)
        taken = torch.arange(size, device=leaf.device) % leaf.shape[dim]
        return made.copy_(leaf.index_select(dim, taken))

    def made_at():
        inputs = get_inputs()
        leaves = pytree.tree_leaves(inputs)
        named = leaves if position < 0 else leaves[position:position + 1]
        old = next((leaf.shape[dim] for leaf in named if has_it(leaf)), 0)
        return pytree.tree_map(
            lambda leaf: resized(leaf)
            if has_it(leaf) and leaf.shape[dim] == old else leaf, inputs)

    return made_at


if "get_inputs_at" in globals():
    def get_inputs():
        return get_inputs_at(WEFT_SIZE)  # noqa: F821
else:
    get_inputs = _weft_at_size(get_inputs, WEFT_SIZE, WEFT_PLACE)  # noqa: F821
