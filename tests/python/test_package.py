"""The editable installation that tools/setup makes: Python finds the checkout's package,
torch.compile finds the backend, and PYTHONPATH stays stronger."""

import os
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = "import sys, build_backend; print(build_backend.build_editable(sys.argv[1]))"


class EditablePackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="weft-package-")
        cls.addClassCleanup(folder.cleanup)
        tools = os.path.join(folder.name, "tools")
        installed = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--target",
                tools,
                "scikit-build-core>=0.10",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if installed.returncode:
            raise unittest.SkipTest("pip cannot install scikit-build-core")
        path = os.pathsep.join([os.path.join(ROOT, "tools", "package"), tools])
        wheel = subprocess.run(
            [sys.executable, "-c", BUILD, folder.name],
            cwd=ROOT,
            text=True,
            env=dict(os.environ, PYTHONPATH=path),
            capture_output=True,
            check=True,
        )
        cls.wheel = os.path.join(folder.name, wheel.stdout.split()[-1])
        cls.site = os.path.join(folder.name, "site")
        with zipfile.ZipFile(cls.wheel) as archive:
            archive.extractall(cls.site)

    def python(self, code: str, path: str = "") -> str:
        """Python's output, with the unpacked wheel as its site-packages."""
        code = f"import site; site.addsitedir({self.site!r})\n" + code
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "WEFT_"))
        }
        return subprocess.run(
            [sys.executable, "-c", code],
            env=dict(environment, PYTHONPATH=path),
            cwd=self.site,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    def test_python_finds_the_checkout(self):
        self.assertEqual(
            self.python("import weft; print(weft.__file__)"),
            os.path.join(ROOT, "python", "weft", "__init__.py"),
        )

    def test_a_package_on_pythonpath_is_stronger(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "weft"))
            path = os.path.join(folder, "weft", "__init__.py")
            with open(path, "w", encoding="utf-8"):
                pass
            self.assertEqual(self.python("import weft; print(weft.__file__)", folder), path)

    def test_torch_compile_knows_the_backend(self):
        listed = self.python("import torch._dynamo\nprint('weft' in torch._dynamo.list_backends())")
        self.assertEqual(listed, "True")

    def test_every_file_of_the_wheel_is_recorded(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            [record] = [name for name in names if name.endswith("/RECORD")]
            text = archive.read(record).decode()
        self.assertEqual([line.split(",")[0] for line in text.split()], names)

    def test_the_metadata_is_complete(self):
        with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
            project = tomllib.load(file)["project"]
        with zipfile.ZipFile(self.wheel) as archive:
            [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
            metadata = archive.read(name).decode()
        for line in (
            "Author: weft developers",
            "Requires-Python: >=3.10",
            *(f"Requires-Dist: {word}" for word in project["dependencies"]),
            *(f"Classifier: {word}" for word in project["classifiers"]),
        ):
            self.assertIn(line, metadata.splitlines())


if __name__ == "__main__":
    unittest.main()
