"""What `pip install ./` installs, laid out from the build that is there: the
program, its Python side and the backend find each other."""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

from weft_case import QUICK, ROOT, TINY, WEFT, WeftCase

# Beside nothing but the installed package: torch.compile by the backend's name.
BY_NAME = """
import torch
import torch._dynamo
assert "weft" in torch._dynamo.list_backends(), torch._dynamo.list_backends()
model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()), \\
    torch.randn(4, 8)
compiled = torch.compile(model, backend="weft", options={"wait": False})
with torch.no_grad():
    torch.testing.assert_close(compiled(x), model(x))
import weft
print(weft.__file__)
from weft.backend import program
print(program.find())
"""


class Wheel(WeftCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="weft-wheel-")
        cls.addClassCleanup(folder.cleanup)
        cls.site = os.path.join(folder.name, "site")
        package = os.path.join(cls.site, "weft")
        shutil.copytree(os.path.join(ROOT, "python", "weft"), package,
                        ignore=shutil.ignore_patterns("__pycache__"))
        cls.native = os.path.join(package, "native")
        subprocess.run(
            ["cmake", "--install", os.path.dirname(WEFT), "--prefix",
             cls.native, "--component", "portable", "--strip"], check=True,
            capture_output=True, timeout=300)
        with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
            cls.project = tomllib.load(file)
        cls.write_metadata()

    @classmethod
    def write_metadata(cls):
        """What an installer writes of pyproject.toml."""
        project = cls.project["project"]
        folder = os.path.join(cls.site, "weft_kernels-0.dist-info")
        os.mkdir(folder)
        with open(os.path.join(folder, "METADATA"), "w",
                  encoding="utf-8") as file:
            file.write("Metadata-Version: 2.1\nVersion: 0\n"
                       f"Name: {project['name']}\n")
        with open(os.path.join(folder, "entry_points.txt"), "w",
                  encoding="utf-8") as file:
            for group, entries in project["entry-points"].items():
                file.write(f"[{group}]\n")
                file.writelines(f"{name} = {what}\n"
                                for name, what in entries.items())

    def python(self, *words):
        """With nothing of the checkout in reach; PyTorch's kept bytecode is the
        user's, as making it takes long."""
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": self.site,
            "PYTHONDONTWRITEBYTECODE": "1", "HOME": os.environ["HOME"],
            "WEFT_CACHE_DIR": self.folder, "WEFT_LIBRARY": ""}
        return subprocess.run([sys.executable, *words], env=environment,
                              capture_output=True, text=True, timeout=300,
                              cwd=self.folder, check=False)

    def test_the_console_script_is_the_program(self):
        self.assertEqual(self.project["project"]["scripts"],
                         {"weft": "weft.backend.program:main"})
        doctor = self.python("-m", "weft.backend.program", "doctor")
        self.assertEqual(doctor.returncode, 0, doctor.stdout + doctor.stderr)
        self.assertIn(self.site, doctor.stdout)
        self.assertIn(sys.executable, doctor.stdout)
        done = self.python("-m", "weft.backend.program", "run",
                           self.write("tiny.py", TINY), "--out",
                           self.path("run"), *QUICK)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_backend_is_found_by_its_name(self):
        done = self.python("-c", BY_NAME)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        where = done.stdout.splitlines()
        self.assertTrue(where[0].startswith(self.site), where)
        self.assertEqual(where[1], os.path.join(self.native, "bin", "weft"))

    def test_programs_need_no_library_of_the_machine_but_glibc(self):
        for program in ("weft", "weft-sandbox"):
            listed = subprocess.run(
                ["ldd", os.path.join(self.native, "bin", program)], text=True,
                capture_output=True, check=True).stdout
            for line in listed.splitlines():
                word = os.path.basename(line.split()[0])
                at_home = any(word.startswith(name + ".so") for name in (
                    "linux-vdso", "ld-linux-x86-64", "libc", "libm",
                    "libpthread", "libdl", "librt", "libresolv"))
                self.assertTrue(at_home or self.native in line, line)

    def test_every_file_is_a_file(self):
        """A wheel holds no links."""
        for folder, _, files in os.walk(self.native):
            for name in files:
                self.assertFalse(os.path.islink(os.path.join(folder, name)))

    def test_the_version_is_one(self):
        with open(os.path.join(ROOT, "CMakeLists.txt"),
                  encoding="utf-8") as file:
            text = file.read()
        import weft

        self.assertIn(f"project(weft VERSION {weft.__version__} ", text)


if __name__ == "__main__":
    unittest.main()
