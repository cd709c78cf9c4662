"""Where PyTorch came as source only, weft keeps Python's bytecode for it, and
the processes of a run load that."""

import compileall
import glob
import os
import resource
import subprocess
import tempfile
import unittest
import venv
from pathlib import Path

from weft_case import WeftCase, environment
from weft.build import bytecode_fill

WORKERS = os.path.dirname(os.path.dirname(bytecode_fill.__file__))

# Enough of a PyTorch to be loaded as one.
PACKAGE = {
    "torch/__init__.py": "",
    "torch/_dynamo/__init__.py": "",
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/compile_fx.py": "",
    "torch/_inductor/loaded_late.py": "",
    "torch-2.9.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0\n",
}


class WithBarePyTorch(WeftCase):
    """A Python whose PyTorch came as source only."""

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
        done = self.weft(
            "doctor",
            "--no-run",
            **{
                "WEFT_PYTHON": self.python,
                "PYTHONDONTWRITEBYTECODE": "1",
                "XDG_CACHE_HOME": self.path("cache"),
                **changes,
            },
        )
        lines = [line for line in done.stdout.splitlines() if " bytecode: " in line]
        self.assertEqual(len(lines), 1, done.stdout + done.stderr)
        return lines[0].strip()


class BytecodeTest(WithBarePyTorch):
    def kept(self):
        files = glob.glob(self.path("cache") + "/weft/bytecode/**/*.pyc", recursive=True)
        return {file: os.stat(file).st_mtime_ns for file in files}

    def test_what_lacks_is_made_once(self):
        self.assertIn("ok   bytecode: weft's own: " + self.path("cache"), self.doctor())
        kept = self.kept()
        for name in ("torch/__init__", "torch/_inductor/compile_fx", "torch/_inductor/loaded_late"):
            self.assertTrue(any(f"{self.packages}/{name}." in file for file in kept), name)
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
        self.write(
            self.packages + "/torch-2.9.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1\n",
        )
        self.assertNotEqual(self.doctor(), first)

    def test_what_came_with_bytecode_keeps_it(self):
        compileall.compile_dir(self.packages, quiet=2)
        self.assertEqual(self.doctor(), "ok   bytecode: PyTorch's own")
        self.assertEqual(self.kept(), {})

    def test_nowhere_to_keep_it(self):
        self.assertIn(
            "no   bytecode: there is no folder to keep PyTorch's "
            "bytecode in: set HOME or XDG_CACHE_HOME",
            self.doctor(XDG_CACHE_HOME=None, HOME=None),
        )

    def test_a_place_that_cannot_be_made(self):
        self.write("cache", "a file")
        self.assertIn("no   bytecode: cannot make", self.doctor())

    def test_a_pytorch_that_cannot_be_loaded(self):
        self.write(self.packages + "/torch/_dynamo/__init__.py", "1 / 0")
        said = self.doctor()
        self.assertIn("no   bytecode: PyTorch's bytecode could not be made", said)
        log = Path(said.split(": ")[-1].split(" says why")[0])
        self.assertIn("ZeroDivisionError", log.read_text())
        # Not again in every run.
        written = log.stat().st_size
        self.assertEqual(self.doctor(), said)
        self.assertEqual(log.stat().st_size, written)

    def test_what_modules_print_is_no_answer(self):
        self.write(self.packages + "/torch/_dynamo/__init__.py", "print('hello')")
        self.assertIn("weft's own", self.doctor())

    def test_files_that_others_may_not_see(self):
        self.doctor()
        os.chmod(self.path("cache"), 0)
        self.addCleanup(os.chmod, self.path("cache"), 0o700)
        if os.geteuid() != 0:
            self.assertIn("no   bytecode", self.doctor())

    def test_a_pytorch_that_was_replaced_gets_its_own(self):
        first = self.doctor()
        self.write(self.packages + "/torch/__init__.py", "version = 2")
        self.assertNotEqual(self.doctor(), first)

    def filling(self, **how):
        """A process that fills the folder, which is there afterwards."""
        folder = Path(self.path("cache"), "one")
        folder.mkdir(parents=True, exist_ok=True)
        return folder / bytecode_fill.DONE, subprocess.Popen(
            [self.python, "-P", "-m", "weft.build.bytecode_fill"],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(
                PYTHONPATH=os.path.dirname(WORKERS),
                PYTHONPYCACHEPREFIX=str(folder),
                PYTHONDONTWRITEBYTECODE=None,
            ),
            **how,
        )

    def test_a_full_disk_is_told_and_leaves_nothing_broken(self):
        done, filling = self.filling(
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))
        )
        _, said = filling.communicate()
        self.assertNotEqual(filling.returncode, 0)
        self.assertIn("is the disk full?", said)
        self.assertFalse(done.exists())
        done, filling = self.filling()
        self.assertEqual(filling.communicate()[0], "done\n")
        self.assertTrue(done.exists())

    def test_two_at_once_fill_it_once(self):
        both = [self.filling() for _ in range(2)]
        for done, filling in both:
            self.assertEqual(filling.communicate()[0], "done\n")
            self.assertTrue(done.exists())


class ReadTest(WithBarePyTorch):
    def loaded(self, module):
        """Where a process of a run has that module's bytecode from."""
        kept = glob.glob(self.path("cache") + "/weft/bytecode/*/")[0]
        done = subprocess.run(
            [self.python, "-P", "-v", "-c", f"import weft, {module}"],
            env=environment(
                PYTHONPATH=os.path.dirname(WORKERS), PYTHONDONTWRITEBYTECODE="1", WEFT_BYTECODE=kept
            ),
            capture_output=True,
            text=True,
            check=True,
        )
        lines = [
            line
            for line in done.stderr.splitlines()
            if f"/{module}/" in line and "code object from" in line
        ]
        return " ".join(lines), kept

    def test_it_is_loaded_where_there_is_none_beside_the_source(self):
        self.doctor()
        lines, kept = self.loaded("torch")
        self.assertIn(f"code object from '{kept}", lines.replace("//", "/"))

    def test_what_has_bytecode_beside_it_loads_that(self):
        self.write(self.packages + "/other/__init__.py", "")
        compileall.compile_dir(self.packages + "/other", quiet=2)
        self.doctor()
        lines, _ = self.loaded("other")
        self.assertIn(f"code object from '{self.packages}/other/__pycache__", lines)


class ForgetTest(unittest.TestCase):
    def test_the_newest_folders_stay(self):
        with tempfile.TemporaryDirectory() as place:
            for age, name in enumerate("abcd"):
                marker = Path(place, name, bytecode_fill.DONE)
                marker.parent.mkdir()
                marker.touch()
                os.utime(marker, (1000 - age, 1000 - age))
            Path(place, "mine").mkdir()
            bytecode_fill.forget(Path(place), 3, Path(place, "mine"))
            self.assertEqual(sorted(os.listdir(place)), ["a", "b", "mine"])


if __name__ == "__main__":
    unittest.main()
