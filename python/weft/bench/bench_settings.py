"""The settings of a bench, as tools/weft/bench_command.cpp writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FleetSettings:
    """For a bench on nodes, which begins when the class of its nodes is known."""

    endpoint: str  #: where nodes connect to
    keys: str  #: the folder of keys; empty: none
    classes: str
    node_seconds: float  #: a node that is silent for longer is lost
    target: str
    jobs: int  #: at once, at most; 0: as many as nodes can judge
    default_out: str  #: --out without the target; empty: --out was given
    gpu_run_flags: list[str]


@dataclass(frozen=True)
class BenchSettings:
    weft: str  #: the program
    version: str
    python: str
    folder: str
    levels: list[int]
    only: list[str]
    out: str
    limit_s: float  #: for all problems; 0: no limit
    problem_s: float
    jobs: int
    rerun: bool
    rerun_failed: bool
    target: str
    gpu: str  #: empty: the processor
    devices: list[int]
    timed: bool
    run_flags: list[str]
    json: bool
    quiet: bool
    beside: str = ""  #: a second folder of problems
    has_budget: bool = False  #: run_flags have the user's
    fleet: FleetSettings | None = None
    timing_class: str = ""  #: of the nodes

    @staticmethod
    def from_json(text: str) -> BenchSettings:
        told: dict[str, Any] = json.loads(text)
        fleet = told.pop("fleet", None)
        return BenchSettings(**told, fleet=FleetSettings(**fleet) if fleet else None)

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions that all results of a folder share, by the names of bench.json."""
        return {
            "folder": self.folder,
            "beside": self.beside,
            "target": self.target,
            "gpu": self.gpu,
            "class": self.timing_class,
            "run_flags": self.run_flags,
        }
