"""The options that a user may set in their own code."""

from __future__ import annotations

import dataclasses
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from weft.problem import sentences

FALLBACKS = ("auto", "eager", "inductor")
TARGETS = ("auto", "cpu", "gpu", "cuda", "triton")
#: Who may be asked for kernels, as the program's roster has them.
SEEDS = ("library", "compiler", "inductor", "llm")
#: torch.compile's own modes; weft's kernels are the same in each.
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
#: Those that ask for CUDA graphs.
CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
BUDGET_S_MAX = 86_400.0
SHAPES_MAX = 64
ADDRESS = re.compile(r"tcp://[^\s/]+:\d{1,5}")
REPLAY_MB, REPLAY_MB_MAX = 1024, 1 << 20


@dataclasses.dataclass(frozen=True)
class Options:
    """Of torch.compile(..., backend="weft", options={...})."""

    #: Seconds for one graph, from writing it down to the module's build.
    budget_s: float = 60.0
    #: Implementation during the search, and afterwards if no kernel is faster: "eager" or
    #: "inductor". Kernels must be faster than it.
    fallback: str = "eager"
    #: Whether the first call waits for the search.
    wait: bool = False
    #: Kernels to build, as for `weft run --target`.
    target: str = "auto"
    #: Maximum number of kernels tried for a subgraph; 0: as the budget allows.
    variants: int = 0
    #: Seed generators, as for `weft run --seeds`. "auto" adds Inductor if it is available
    #: and the budget allows it.
    seeds: str = "auto"
    #: Maximum number of sizes for which one graph gets kernels.
    shapes_max: int = 4
    #: Seconds that one call may be delayed to time kernels against the fallback in this
    #: process; 0: the search's timing decides.
    trial_s: float = 1.0
    #: MiB of a GPU's memory that the CUDA graphs of calls may keep, where they are
    #: faster here; 0: there are none. None: what the mode asks for.
    replay_mb: int | None = None
    #: Whether modules of earlier processes are used, and new ones stored.
    cache: bool = True
    #: Whether a forked process, or a worker of multiprocessing, may start a search. None:
    #: as WEFT_WORKER_SEARCHES sets it, else False.
    worker_searches: bool | None = None
    #: torch.compile's mode, for Inductor's code and CUDA graphs. (With `options`,
    #: torch.compile takes no `mode`.)
    mode: str | None = None
    #: Address of a head (`weft head`) that searches instead of this machine,
    #: tcp://HOST:PORT; "": this machine searches.
    head: str = ""
    #: Folder with the head's public key and the user's keys (`weft keygen`); "": none,
    #: for a head on this machine.
    keys: str = ""

    def __post_init__(self) -> None:
        _check("fallback", self.fallback, FALLBACKS)
        _check("target", self.target, TARGETS)
        _check("mode", self.mode, MODES)
        _check_flag("wait", self.wait)
        _check_flag("cache", self.cache)
        if self.worker_searches is not None:
            _check_flag("worker_searches", self.worker_searches)
        _check_seeds(self.seeds)
        _check_range("budget_s", self.budget_s, 1, BUDGET_S_MAX)
        _check_range("trial_s", self.trial_s, 0, 60)
        _check_count("variants", self.variants, 0, 64)
        _check_count("shapes_max", self.shapes_max, 1, SHAPES_MAX)
        if self.head != "" and not (isinstance(self.head, str) and ADDRESS.fullmatch(self.head)):
            raise ValueError(f"weft's option head is {self.head!r}: it is tcp://HOST:PORT")
        if not isinstance(self.keys, str):
            raise ValueError(f"weft's option keys is {self.keys!r}: it is a folder's path")
        if self.replay_mb is not None:
            _check_count("replay_mb", self.replay_mb, 0, REPLAY_MB_MAX)

    def graph_bytes(self) -> Any:
        """Of a GPU's memory, that CUDA graphs may keep."""
        mb = self.replay_mb
        if mb is None:
            mb = REPLAY_MB if self.mode in CUDA_GRAPHS else 0
        return mb << 20


def options_from(given: Any, mode: Any = None) -> Any:
    """Options of torch.compile's dict; ValueError names what is not known."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name in given or {}:
        if name not in known:
            raise ValueError(f"weft has no option '{name}': it knows " + ", ".join(known))
    options = Options(**{"fallback": "auto", "mode": mode, **_from_environment(), **(given or {})})
    if options.fallback == "auto":
        return dataclasses.replace(options, fallback=_default_fallback())
    return options


def _from_environment() -> dict[str, object]:
    """Options that variables such as WEFT_BUDGET_S set; ValueError names one whose
    text is no value."""
    found: dict[str, object] = {}
    for field in dataclasses.fields(Options):
        variable = "WEFT_" + field.name.upper()
        text = os.environ.get(variable, "")
        if text and field.name in FROM_ENVIRONMENT:
            try:
                found[field.name] = FROM_ENVIRONMENT[field.name](text)
            except ValueError as error:
                raise ValueError(f"{variable} is {text!r}: {error}") from None
    return found


def _flag(text: str) -> bool:
    if text.lower() not in FLAGS:
        raise ValueError("it is one of " + ", ".join(FLAGS))
    return FLAGS[text.lower()]


def _default_fallback() -> str:
    """Inductor, where the program has a GPU and Triton. On a processor Inductor's code
    takes seconds to build for each graph; there it is used if it is asked for."""
    import torch

    has_triton = importlib.util.find_spec("triton") is not None
    return "inductor" if has_triton and torch.cuda.is_available() else "eager"


FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
#: Options that the environment may set, and how their text is read.
FROM_ENVIRONMENT: dict[str, Callable[[str], Any]] = {
    "budget_s": float,
    "fallback": str,
    "wait": _flag,
    "target": str,
    "variants": int,
    "seeds": str,
    "shapes_max": int,
    "trial_s": float,
    "replay_mb": int,
    "cache": _flag,
    "head": str,
    "keys": str,
}


def _check(name: str, value: Any, known: Any) -> None:
    if value not in known:
        raise ValueError(
            f"weft's option {name} is {value!r}: it may be " + ", ".join(repr(one) for one in known)
        )


def _check_flag(name: str, value: Any) -> None:
    """Any text would count as true, "no" as well."""
    if not isinstance(value, bool):
        raise ValueError(f"weft's option {name} is {value!r}: it is True or False")


def _check_seeds(value: Any) -> None:
    names = value.split(",") if isinstance(value, str) else []
    if value != "auto" and (not names or set(names) - set(SEEDS)):
        raise ValueError(
            f"weft's option seeds is {value!r}: it is 'auto', or "
            f"some of {','.join(SEEDS)}, with commas between"
        )


def _check_range(
    name: str, value: Any, low: Any, high: Any, kinds: Any = (int, float), words: str = "a number"
) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(
            f"weft's option {name} is {value!r}: it is {words} from {low:g} to {high:.7g}"
        )


def _check_count(name: str, value: Any, low: Any, high: Any) -> None:
    _check_range(name, value, low, high, int, "a whole number")


def is_disabled() -> bool:
    """WEFT_DISABLE=1: everything is the framework's."""
    return os.environ.get("WEFT_DISABLE", "") not in ("", "0")


def _logger() -> Any:
    """WEFT_LOG names the level of what is told on standard error."""
    logger = logging.getLogger("weft")
    level = os.environ.get("WEFT_LOG", "").upper()
    if level in LEVELS:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("weft: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    elif level not in ("", "0"):
        logger.warning("WEFT_LOG is %r: it may be %s", level.lower(), ", ".join(LEVELS).lower())
    return logger


log = _logger()


def told(error: BaseException) -> Any:
    """Of an exception, for people."""
    return sentences.of_error(error)
