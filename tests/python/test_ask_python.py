"""The folders that a Python's processes read in a sandbox, as that Python lists them."""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ASK = os.path.join(ROOT, "runtime", "machine", "ask_python.py")
#: One that has a folder of packages for each user, as a virtual environment has not.
PYTHON = os.path.join(sys.base_prefix, "bin", "python3")


class Roots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)

    def made(self, *names):
        path = os.path.join(self.folder, *names)
        os.makedirs(path)
        return path

    def roots(self, *paths):
        done = subprocess.run(
            [PYTHON, "-P", ASK],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUSERBASE": self.folder},
        )
        return json.loads(done.stdout)["roots"]

    def test_what_pythonpath_alone_names_is_none(self):
        self.assertNotIn(path := self.made("named"), self.roots(path))

    def test_what_installed_packages_name_is_one_whoever_else_does(self):
        version = f"python{sysconfig.get_python_version()}"
        site = self.made("lib", version, "site-packages")
        path = self.made("editable")
        with open(os.path.join(site, "editable.pth"), "w", encoding="utf-8") as file:
            file.write(f"# here it is\n{path}\n")
        for named in ((), (path,), (path, site)):
            roots = self.roots(*named)
            self.assertIn(path, roots)
            self.assertIn(site, roots)


if __name__ == "__main__":
    unittest.main()
