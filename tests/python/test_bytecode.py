"""Where PyTorch came as source only, weft keeps Python's bytecode for it, and
the processes of a run load that."""

import compileall
import glob
import os
import tempfile
import unittest
import venv
from pathlib import Path

from weft_case import WeftCase
from weft_worker import bytecode

# Enough of a PyTorch to be loaded as one.
PACKAGE = {
    "torch/__init__.py": "",
    "torch/_dynamo/__init__.py": "",
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/compile_fx.py": "",
    "torch/_inductor/loaded_late.py": "",
    "torch-2.9.0.dist-info/METADATA":
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0\n",
}


class BytecodeTest(WeftCase):
    def setUp(self):
        super().setUp()
        place = self.path("python")
        venv.create(place, with_pip=False, symlinks=True)
        self.python = os.path.join(place, "bin/python")
        self.packages = glob.glob(place + "/lib/python3*/site-packages")[0]
        for name, text in PACKAGE.items():
            self.write(os.path.join(self.packages, name), text)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        return super().write(name, text)

    def doctor(self, **changes):
        """What `weft doctor` says about that Python's bytecode."""
        done = self.weft("doctor", **{
            "WEFT_PYTHON": self.python, "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CACHE_HOME": self.path("cache"), **changes})
        lines = [line for line in done.stdout.splitlines()
                 if " bytecode: " in line]
        self.assertEqual(len(lines), 1, done.stdout + done.stderr)
        return lines[0].strip()

    def kept(self):
        files = glob.glob(self.path("cache") + "/weft/bytecode/**/*.pyc",
                          recursive=True)
        return {file: os.stat(file).st_mtime_ns for file in files}

    def test_what_lacks_is_made_once(self):
        self.assertIn("ok   bytecode: weft's own: " + self.path("cache"),
                      self.doctor())
        kept = self.kept()
        for name in ("torch/__init__", "torch/_inductor/compile_fx",
                     "torch/_inductor/loaded_late"):
            self.assertTrue(any(f"{self.packages}/{name}." in file
                                for file in kept), name)
        self.assertIn("weft's own", self.doctor())
        self.assertEqual(self.kept(), kept)

    def test_the_sandbox_s_user_can_read_it(self):
        before = os.umask(0o077)
        self.addCleanup(os.umask, before)
        self.doctor()
        folder = glob.glob(self.path("cache") + "/weft/bytecode/*/")[0]
        for place, _, files in os.walk(folder):
            for name in [".", *(it for it in files if it.endswith(".pyc"))]:
                mode = os.stat(os.path.join(place, name)).st_mode
                self.assertTrue(mode & 0o004, os.path.join(place, name))

    def test_another_pytorch_gets_its_own(self):
        first = self.doctor()
        self.write(self.packages + "/torch-2.9.0.dist-info/METADATA",
                   "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1\n")
        self.assertNotEqual(self.doctor(), first)

    def test_what_came_with_bytecode_keeps_it(self):
        compileall.compile_dir(self.packages, quiet=2)
        self.assertEqual(self.doctor(), "ok   bytecode: PyTorch's own")
        self.assertEqual(self.kept(), {})

    def test_nowhere_to_keep_it(self):
        self.assertIn("no   bytecode: there is no folder to keep PyTorch's "
                      "bytecode in: set HOME or XDG_CACHE_HOME",
                      self.doctor(XDG_CACHE_HOME=None, HOME=None))

    def test_a_place_that_cannot_be_made(self):
        self.write("cache", "a file")
        self.assertIn("no   bytecode: cannot make", self.doctor())

    def test_a_pytorch_that_cannot_be_loaded(self):
        self.write(self.packages + "/torch/_dynamo/__init__.py", "1 / 0")
        said = self.doctor()
        self.assertIn("no   bytecode: loading PyTorch for its bytecode failed",
                      said)
        log = said.split(": ")[-1].removesuffix(" says why")
        self.assertIn("ZeroDivisionError", Path(log).read_text())


class ForgetTest(unittest.TestCase):
    def test_the_newest_folders_stay(self):
        with tempfile.TemporaryDirectory() as place:
            for age, name in enumerate("abcd"):
                marker = Path(place, name, bytecode.DONE)
                marker.parent.mkdir()
                marker.touch()
                os.utime(marker, (1000 - age, 1000 - age))
            Path(place, "being filled").mkdir()
            bytecode.forget(Path(place), keep=2)
            self.assertEqual(sorted(os.listdir(place)),
                             ["a", "b", "being filled"])


if __name__ == "__main__":
    unittest.main()
