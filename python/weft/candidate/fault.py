"""Reads what Python's faulthandler printed when a process died of a fault: its calls, the
innermost first."""

from __future__ import annotations

import re

#: What it prints of a fault begins so …
_BEGIN = "Fatal Python error"
#: … and ends so where more calls were under way than it lists.
_MORE = "\n  ...\n"
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in (\S+)$', re.MULTILINE)
#: Frames that are nobody's fault: the framework's and ours.
_OTHERS = ("/site-packages/", "/dist-packages/", "/weft/")


def told(printed: str) -> str:
    """One line of it, or "": where the fault was, and whether the stack was
    full."""
    where = _where(printed)
    if _MORE in printed and where:
        return f"its calls go deeper than the stack holds, as an endless recursion does: {where}"
    if _BEGIN in printed and where:
        return f"a fault in native code, called at {where}"
    return ""


def _where(printed: str) -> str:
    frames = _FRAME.findall(printed)
    own = [frame for frame in frames if not any(other in frame[0] for other in _OTHERS)]
    if not (own or frames):
        return ""
    path, line, function = (own or frames)[0]
    return f"{path.rsplit('/', 1)[-1]}:{line}, in {function}"
