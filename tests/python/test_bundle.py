"""A bundle, unpacked somewhere else, is the whole of weft."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from weft_case import QUICK, ROOT, TINY, WEFT, WeftCase


class Bundle(WeftCase):
    @classmethod
    def setUpClass(cls):
        cls.unpacked = tempfile.mkdtemp(prefix="weft-case-")
        cls.addClassCleanup(shutil.rmtree, cls.unpacked)
        archive = os.path.join(cls.unpacked, "weft.tar.gz")
        subprocess.run(
            [
                os.path.join(ROOT, "tools", "bundle"),
                "--build",
                os.path.dirname(WEFT),
                "--out",
                archive,
            ],
            check=True,
            capture_output=True,
            timeout=300,
        )
        with tarfile.open(archive) as file:
            file.extractall(cls.unpacked)
        os.remove(archive)
        (name,) = os.listdir(cls.unpacked)
        cls.root = os.path.join(cls.unpacked, name)

    def setUp(self):
        super().setUp()
        # Nothing but a C++ compiler: no bwrap, and no Python.
        os.mkdir(self.path("path"))
        os.symlink(shutil.which("g++"), self.path("path/g++"))

    def bundled(self, *words):
        return subprocess.run(
            [os.path.join(self.root, "bin", "weft"), *words],
            env={"PATH": self.path("path"), "WEFT_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=300,
            cwd=self.folder,
            check=False,
        )

    def test_it_needs_no_library_of_the_machine_but_glibc(self):
        libraries = os.path.join(self.root, "lib", "weft")
        for program in ("bin/weft", "bin/weft-sandbox", "lib/weft/bwrap"):
            environment = dict(os.environ)
            if program.endswith("bwrap"):
                environment["LD_LIBRARY_PATH"] = libraries
            listed = subprocess.run(
                ["ldd", os.path.join(self.root, program)],
                text=True,
                capture_output=True,
                check=True,
                env=environment,
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
                self.assertTrue(at_home or self.root in line, line)

    def test_it_runs_with_nothing_else_of_weft_around(self):
        doctor = self.bundled("doctor", "--no-run")
        self.assertEqual(doctor.returncode, 0, doctor.stdout + doctor.stderr)
        self.assertIn(os.path.join(self.root, "share", "weft", "python"), doctor.stdout)
        self.assertIn("ok   network namespace", doctor.stdout)
        run = self.path("run")
        done = self.bundled("run", self.write("tiny.py", TINY), "--out", run, *QUICK)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_all_can_be_read_by_the_sandbox_s_own_user(self):
        for folder, _, files in os.walk(self.root):
            self.assertEqual(os.stat(folder).st_mode & 0o055, 0o055, folder)
            for name in files:
                path = os.path.join(folder, name)
                self.assertEqual(os.stat(path).st_mode & 0o044, 0o044, path)


if __name__ == "__main__":
    unittest.main()
