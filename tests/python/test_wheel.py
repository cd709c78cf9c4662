"""The files of `pip install ./`, laid out from the build that is there: the
program, its Python side and the backend find each other."""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zipfile

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
from weft.backend.searches import weft_process
print(weft_process.find())
"""


class Wheel(WeftCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="weft-wheel-")
        cls.addClassCleanup(folder.cleanup)
        cls.site = os.path.join(folder.name, "site")
        package = os.path.join(cls.site, "weft")
        shutil.copytree(
            os.path.join(ROOT, "python", "weft"),
            package,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        cls.native = os.path.join(package, "native")
        subprocess.run(
            [
                "cmake",
                "--install",
                os.path.dirname(WEFT),
                "--prefix",
                cls.native,
                "--component",
                "portable",
                "--strip",
            ],
            check=True,
            capture_output=True,
            timeout=300,
        )
        with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
            cls.project = tomllib.load(file)
        cls.write_metadata()

    @classmethod
    def write_metadata(cls):
        """What an installer writes of pyproject.toml."""
        project = cls.project["project"]
        folder = os.path.join(cls.site, "weft_kernels-0.dist-info")
        os.mkdir(folder)
        with open(os.path.join(folder, "METADATA"), "w", encoding="utf-8") as file:
            file.write(f"Metadata-Version: 2.1\nVersion: 0\nName: {project['name']}\n")
        with open(os.path.join(folder, "entry_points.txt"), "w", encoding="utf-8") as file:
            for group, entries in project["entry-points"].items():
                file.write(f"[{group}]\n")
                file.writelines(f"{name} = {what}\n" for name, what in entries.items())

    def python(self, *words):
        """With nothing of the checkout in reach; PyTorch's kept bytecode is the
        user's, as making it takes long."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": self.site,
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": os.environ["HOME"],
            "WEFT_CACHE_DIR": self.folder,
            "WEFT_LIBRARY": "",
        }
        return subprocess.run(
            [sys.executable, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=self.folder,
            check=False,
        )

    def test_the_console_script_is_the_program(self):
        self.assertEqual(
            self.project["project"]["scripts"], {"weft": "weft.backend.searches.weft_process:main"}
        )
        doctor = self.python("-m", "weft.backend.searches.weft_process", "doctor", "--no-run")
        self.assertEqual(doctor.returncode, 0, doctor.stdout + doctor.stderr)
        self.assertIn(self.site, doctor.stdout)
        self.assertIn(sys.executable, doctor.stdout)
        done = self.python(
            "-m",
            "weft.backend.searches.weft_process",
            "run",
            self.write("tiny.py", TINY),
            "--out",
            self.path("run"),
            *QUICK,
        )
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
                ["ldd", os.path.join(self.native, "bin", program)],
                text=True,
                capture_output=True,
                check=True,
            ).stdout
            for line in listed.splitlines():
                word = os.path.basename(line.split()[0])
                at_home = any(
                    word.startswith(name + ".so")
                    for name in (
                        "linux-vdso",
                        "ld-linux-x86-64",
                        "libc",
                        "libm",
                        "libpthread",
                        "libdl",
                        "librt",
                        "libresolv",
                    )
                )
                self.assertTrue(at_home or self.native in line, line)

    def test_every_file_is_a_file(self):
        """A wheel holds no links."""
        for folder, _, files in os.walk(self.native):
            for name in files:
                self.assertFalse(os.path.islink(os.path.join(folder, name)))

    def test_the_version_is_one(self):
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            text = file.read()
        import weft

        self.assertIn(f"project(weft VERSION {weft.__version__} ", text)


AUDITWHEEL = """#!{python}
import json, os, shutil, sys, zipfile
words = sys.argv[1:]
if words[0] == "show":
    print("INFO: of another kind", file=sys.stderr)
    print(json.dumps({{"sym_tag": {meets!r}, "overall_tag": "linux_x86_64"}}))
    sys.exit()
platform = words[words.index("--plat") + 1]
if platform != {meets!r}:
    sys.exit("too-recent versioned symbols")
excluded = [b for a, b in zip(words, words[1:]) if a == "--exclude"]
folder = words[words.index("--wheel-dir") + 1]
os.makedirs(folder)
made = os.path.join(folder, "weft-py3-none-" + platform + ".whl")
shutil.copyfile(words[-1], made)
with zipfile.ZipFile(made, "a") as wheel:
    for name in ["libcurl.so.4", "libmissing-2.5.so.0"]:
        if name not in excluded:
            stem, _, rest = name.partition(".so")
            wheel.writestr("weft.libs/" + stem + "-0123abcd.so" + rest, "")
"""


class Tagged(WeftCase):
    """tools/wheel, of a wheel that is there; auditwheel is played."""

    def tag(
        self,
        *words,
        meets="manylinux_2_36_x86_64",
        has=("libcurl.so.4", "libmissing-2.5.so.0"),
        licences=("libcurl4",),
    ):
        tools = self.path("tools")
        os.makedirs(tools, exist_ok=True)
        for name in ("auditwheel", "patchelf"):
            path = self.write(
                f"tools/{name}", AUDITWHEEL.format(meets=meets, python=sys.executable)
            )
            os.chmod(path, 0o755)
        wheel = self.path("weft-py3-none-linux_x86_64.whl")
        with zipfile.ZipFile(wheel, "w") as file:
            for name in has:
                file.writestr("weft/native/lib/weft/" + name, "")
            for name in licences:
                file.writestr("weft/native/share/weft/licences/" + name, "")
        return subprocess.run(
            [
                os.path.join(ROOT, "tools", "wheel"),
                "--wheel",
                wheel,
                "--out",
                self.path("out"),
                *words,
            ],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": f"{tools}:/usr/bin:/bin", "PYTHON": sys.executable},
        )

    def test_it_has_the_tag_that_its_symbols_meet(self):
        done = self.tag()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("manylinux_2_36_x86_64.whl", done.stdout)
        self.assertIn(
            "needs glibc 2.36 or newer; contains 2 libraries and 1 licence texts", done.stdout
        )
        self.assertEqual(os.listdir(self.path("out")), ["weft-py3-none-manylinux_2_36_x86_64.whl"])

    def test_what_it_is_not_is_refused(self):
        for words, changes, told in (
            (
                ["--platform", "manylinux_2_28_x86_64"],
                {},
                "is not manylinux_2_28_x86_64; by its symbols it is",
            ),
            ([], {"meets": "linux_x86_64"}, "for this Linux alone"),
            ([], {"has": ["libcurl.so.4"]}, "install libmissing-2.5.so.0"),
            ([], {"has": []}, "not weft's"),
            ([], {"licences": []}, "lacks the licences"),
        ):
            with self.subTest(told):
                done = self.tag(*words, **changes)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(told, done.stderr)
                self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    unittest.main()
