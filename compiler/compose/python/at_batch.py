

def _weft_at_batch(get_inputs, size):
    """get_inputs() of the same problem at another batch: that is the first
    dimension of its first tensor, and of each that has it as its first. Rows
    are repeated, or left out. A problem that knows better defines
    get_inputs_at(batch)."""
    import torch
    from torch.utils import _pytree as pytree

    def is_sized(leaf, batch):
        return (isinstance(leaf, torch.Tensor) and leaf.dim() > 0
                and leaf.shape[0] == batch)

    def resized(leaf):
        order = sorted(range(leaf.dim()), key=leaf.stride, reverse=True)
        made = torch.empty_permuted((size, *leaf.shape[1:]), order,
                                    dtype=leaf.dtype, device=leaf.device)
        rows = torch.arange(size, device=leaf.device) % leaf.shape[0]
        return made.copy_(leaf[rows])

    def made_at():
        inputs = get_inputs()
        batch = next((leaf.shape[0] for leaf in pytree.tree_leaves(inputs)
                      if isinstance(leaf, torch.Tensor) and leaf.dim()), 0)
        return pytree.tree_map(
            lambda leaf: resized(leaf) if is_sized(leaf, batch) else leaf,
            inputs)

    return made_at


if "get_inputs_at" in globals():
    def get_inputs():
        return get_inputs_at(WEFT_BATCH)  # noqa: F821
else:
    get_inputs = _weft_at_batch(get_inputs, WEFT_BATCH)  # noqa: F821
