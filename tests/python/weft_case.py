"""Shared by the tests of the weft program: problem files small enough to run
in seconds, runs of the program, a look into journals and at processes left."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEFT = os.environ.get("WEFT_BIN", os.path.join(ROOT, "build", "weft"))

# The Python that runs the tests has PyTorch, so weft's own can be the same. No
# test uses the user's kernel library, or another's. A run judges one subgraph at a
# time, unless it is told: for the second one it would load PyTorch twice more, and
# tests run beside each other as it is.
ENVIRONMENT = {
    "WEFT_HOME": ROOT,
    "WEFT_PYTHON": sys.executable,
    "WEFT_LIBRARY": "",
    "WEFT_RUN_JOBS": "1",
}

# Two subgraphs around an extern, one of which is used twice.
TINY = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        y = torch.tanh(self.linear(torch.relu(x) * self.scale))
        return torch.softmax(y + x, dim=-1)


def get_inputs():
    return [torch.rand(64, 96)]


def get_init_inputs():
    return [96]
"""

# How a script begins that is given the files of Model and of ModelNew.
LOAD_BOTH = """
import importlib.util, sys, torch
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
old, new = load("old", sys.argv[1]), load("new", sys.argv[2])
"""

QUICK = (
    "--variants",
    "2",
    "--no-compile-baseline",
    "--timing-ms",
    "50",
    "--final-timing-ms",
    "100",
)


#: tools/test --long: besides what each landing is tried with, what takes longer
#: for little more, most of it a second real search of the same kind.
IS_LONG = os.environ.get("WEFT_LONG_TESTS") == "1"
long = unittest.skipUnless(IS_LONG, "tools/test --long runs it")


def module_of(path):
    """A problem's or a composed module's file, in this process."""
    name = os.path.basename(path).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def problem_with(
    forward="return torch.relu(x) * 2",
    init="pass",
    inputs="[torch.rand(8, 16)]",
    arguments="self, x",
    head="",
):
    """A problem file's text, with something special in one place."""
    return (
        f"import torch\nimport torch.nn as nn\n{head}\n"
        "class Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        f"        {init}\n\n"
        f"    def forward({arguments}):\n        {forward}\n\n"
        f"def get_inputs():\n    return {inputs}\n\n"
        "def get_init_inputs():\n    return []\n"
    )


def tool(name):
    """That file of tools/, as a module."""
    loader = importlib.machinery.SourceFileLoader(
        name.replace("-", "_"), os.path.join(ROOT, "tools", name)
    )
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def environment(**changes):
    """This process's environment for weft; None removes a variable."""
    merged = {**os.environ, **ENVIRONMENT, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def processes_that_name(*texts):
    """Processes whose command line, environment or working folder names one
    of the texts, as {pid: command line}. A zombie names nothing any more."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        about = ""
        for name in ("cmdline", "environ"):
            try:
                with open(f"/proc/{entry}/{name}", "rb") as file:
                    about += file.read().decode(errors="replace") + "\0"
            except OSError:
                pass
        try:
            about += os.readlink(f"/proc/{entry}/cwd")
        except OSError:
            pass
        if any(text in about for text in texts):
            found[int(entry)] = about[:300].replace("\0", " ")
    return found


def events_of(run):
    """The journal's envelopes, bodies decoded."""
    shown = subprocess.run(
        [WEFT, "show", run, "--events", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    return [json.loads(line) for line in shown.stdout.splitlines()]


def held_against(run, by):
    """{that field ("source", "target") of what was checked in the run: all
    that it was held against}"""
    found = {}
    for event in events_of(run):
        if event["type"] == "CheckRequest":
            subject = event["body"]["subject"]
            found.setdefault(subject[by], set()).add(subject["against"])
    return found


def at_run(words, run):
    """The command, its run and its options."""
    if words[0] == "export":
        return [*words, run]
    return [words[0], run, *words[1:]]


class WeftCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="weft-case-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def python(self, name, script):
        """A program that stands for a Python."""
        path = self.write(name, "#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return path

    def python_without_torch(self):
        """A Python without site-packages and PYTHONPATH."""
        real = os.path.realpath(sys.executable)
        return self.python("bare-python", f"exec '{real}' -I -S \"$@\"\n")

    def weft(self, *words, timeout=300, preexec_fn=None, cwd=None, told=None, **changes):
        """`told`: what it reads from its standard input."""
        return subprocess.run(
            [WEFT, *words],
            capture_output=True,
            text=True,
            env=environment(**changes),
            timeout=timeout,
            preexec_fn=preexec_fn,
            cwd=cwd or self.folder,
            input=told,
            check=False,
        )

    def ended(self, *words, codes=range(128)):
        """weft with these words, which ends by itself, in time and with one of these codes;
        its output as bytes."""
        done = subprocess.run(
            [WEFT, *words],
            capture_output=True,
            timeout=120,
            cwd=self.folder,
            env=environment(),
            check=False,
        )
        self.assertIn(done.returncode, codes, (words, done.stderr[-500:]))
        return done

    def assert_replays(self, run):
        checked = self.weft("replay", run, "--check")
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("no divergence", checked.stdout)

    def assert_ends(self, done, code, *words):
        """Exit code and what standard error says, in one clear message."""
        told = f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.assertEqual(done.returncode, code, told)
        for word in words:
            self.assertIn(word, done.stderr, told)
