"""ModelNew's file for both modes: the module of one run, the text of the
other's, and the part that chooses (both_modes_part.py). It needs nothing of weft."""

from __future__ import annotations

import os

from weft.quoted import quoted

MODES = ("eval", "train")
_PART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "both_modes_part.py")


def write(texts: dict[str, str | None]) -> str:
    """The file's text. `texts`: each mode's composed module, or None where it
    has no kernels of ours; one has."""
    own = next(mode for mode in MODES if texts[mode] is not None)
    own_text = texts[own]
    assert own_text is not None
    (other,) = (mode for mode in MODES if mode != own)
    with open(_PART, encoding="utf-8") as file:
        part = file.read()
    return (
        f"{own_text.rstrip()}\n\n\n"
        f"_weft_own_mode = {own == 'train'}  # of self.training\n"
        f"_weft_other_text = {quoted(texts[other] or '')}\n{part}"
    )
