"""Settings of the drivers of several runs, for tests."""

from weft.runs import DriverSettings


def settings_with(**more):
    """Settings that judge quietly on the processor, with these changes."""
    given = {
        "weft": "",
        "problem": "",
        "out": "",
        "mode": "as-is",
        "target": "cpu",
        "device": "cpu",
        "budget_s": 0,
        "with_compile": False,
        "run_flags": [],
        "resume_flags": [],
        "judge_flags": [],
        "json": False,
        "quiet": True,
    }
    return DriverSettings(**{**given, **more})
