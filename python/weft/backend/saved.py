"""`weft.save(module, path)` and `weft.load(path)`: an optimised module with
its tensors and its kernels' sources, in one file.

It is a pickle, as torch.save makes them: load only what you trust. The module's
class is imported where it was; kernels are built again for the machine.
"""

import torch

FORMAT = 1


def save(module, path):
    """Writes the module. OSError if the file cannot be written."""
    from weft import __version__

    torch.save({"weft": FORMAT, "version": __version__, "module": module},
               path)


def load(path):
    """The module; ValueError if the file is none of ours."""
    kept = torch.load(path, weights_only=False)
    if not isinstance(kept, dict) or kept.get("weft") != FORMAT:
        raise ValueError(f"{path} was not written by weft.save()")
    return kept["module"]
