"""Shared by the tests of capture: problems as texts, and their fate."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON_PATH = os.path.join(ROOT, "python")
sys.path.insert(0, PYTHON_PATH)

from weft.capture import capture

HEADER = """
import torch
import torch.nn as nn
import torch.nn.functional as F
"""

SIMPLE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, {names}):
        {body}

def get_inputs():
    return {inputs}

def get_init_inputs():
    return []
"""


def simple(body, inputs="[torch.randn(4, 6)]", init="pass", names="x"):
    """The text of a problem with that forward()."""
    return HEADER + SIMPLE.format(
        body=textwrap.indent(textwrap.dedent(body), " " * 8).strip(),
        init=textwrap.indent(textwrap.dedent(init), " " * 8).strip(),
        inputs=inputs,
        names=names,
    )


class CaptureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "graph.json")

    def write(self, text):
        path = os.path.join(self.folder, "problem.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def command(self, *words):
        """The process of the command line, ended."""
        return subprocess.run(
            [sys.executable, "-m", "weft.capture.capture", *words],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        )

    def capture(self, text):
        """The graph of that problem, which must be capturable."""
        reply = capture.reply_of(self.write(text), self.out)
        self.assertTrue(reply["ok"], reply)
        with open(self.out, encoding="utf-8") as file:
            graph = json.load(file)
        self.assertEqual(len(graph["nodes"]), reply["nodes"])
        return graph

    def refuse(self, text, kind, says=(), line=None, code="wrong_input"):
        """The error of that problem, which must name `line` (a text in it)."""
        path = self.write(text)
        with contextlib.redirect_stdout(io.StringIO()):
            reply = capture.reply_of(path, self.out)
        self.assertFalse(reply["ok"], "was captured")
        error = reply["error"]
        self.assertEqual((error["kind"], error["code"]), (kind, code), error)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, error["message"])
        self.assertNotIn("Traceback", error["message"])
        self.assertFalse(os.path.exists(self.out))
        if line is not None:
            lines = text.splitlines()
            self.assertEqual(error["file"], "problem.py")
            self.assertGreater(error["line"], 0, error)
            self.assertIn(line, lines[error["line"] - 1])
        return error

    @staticmethod
    def targets(graph):
        return [node["target"] for node in graph["nodes"] if node["kind"] == "call"]

    @staticmethod
    def kinds(graph):
        return {node["target"]: node for node in graph["nodes"] if node["kind"] != "call"}
