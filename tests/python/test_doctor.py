"""`weft doctor` knows a machine by a run, and says what to change where none can be."""

import os
import shutil
import subprocess
import unittest

from weft_case import TINY, WEFT, WeftCase, environment, problem_with

#: A user namespace in which there is one user, who is called root: that of a rootless
#: container, and of Apptainer.
ONE_USER = ("unshare", "--user", "--map-root-user")
OTHER_USER = ("setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups")
SANDBOX = os.environ.get("WEFT_SANDBOX", os.path.join(os.path.dirname(WEFT), "weft-sandbox"))


def has_namespaces():
    return (
        subprocess.run([*ONE_USER, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    )


class Doctor(WeftCase):
    def doctor(self, *words, **changes):
        return subprocess.run(
            [WEFT, "doctor", *words],
            capture_output=True,
            text=True,
            check=False,
            env=environment(**changes),
        )

    def without_a_sandbox(self):
        """The environment of a machine whose bubblewrap can make no namespace."""
        folder = self.path("bin")
        os.mkdir(folder)
        path = os.path.join(folder, "bwrap")
        with open(path, "w", encoding="ascii") as file:
            file.write(
                "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
            )
        os.chmod(path, 0o755)
        return folder + os.pathsep + os.environ["PATH"]

    def test_it_runs_a_tiny_problem(self):
        done = self.doctor()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "ok +a tiny problem: verified")
        self.assertIn("ready for: weft run", done.stdout)

    def test_without_a_sandbox_it_says_what_to_change(self):
        done = self.doctor(PATH=self.without_a_sandbox())
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("No permissions to create new namespace", done.stdout)
        self.assertIn("--sandbox none", done.stdout)
        self.assertIn("not ready", done.stdout)
        self.assertNotIn("a tiny problem", done.stdout)

    def test_kernels_that_are_trusted_run_without_one(self):
        problem = self.write("tiny.py", TINY)
        path = self.without_a_sandbox()
        refused = self.weft("run", problem, "--out", self.path("refused"), PATH=path)
        self.assertEqual(refused.returncode, 3, refused.stdout + refused.stderr)
        run = self.path("run")
        done = self.weft(
            "run",
            problem,
            "--out",
            run,
            "--sandbox",
            "none",
            PATH=path,
            *(
                "--variants",
                "1",
                "--no-compile-baseline",
                "--timing-ms",
                "50",
                "--final-timing-ms",
                "100",
            ),
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("everything (--sandbox none)", done.stdout + done.stderr)
        with open(f"{run}/report.md", encoding="utf-8") as file:
            self.assertIn("everything (--sandbox none)", file.read())
        self.assert_replays(run)
        candidate = self.write(
            "candidate.py", problem_with().replace("class Model(", "class ModelNew(")
        )
        reference = self.write("reference.py", problem_with())
        done = self.weft(
            "eval", reference, candidate, "--no-timing", "--sandbox", "none", PATH=path
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("none: the candidate ran with all your rights", done.stdout)

    @unittest.skipUnless(
        os.getuid() == 0 and has_namespaces(),
        "only root can be another user, and not without namespaces",
    )
    def test_root_of_a_namespace_with_one_user_has_a_sandbox(self):
        launcher, scratch = self.path("weft-sandbox"), self.path("scratch")
        shutil.copy(SANDBOX, launcher)
        os.mkdir(scratch)
        os.chmod(self.folder, 0o755)
        os.chown(scratch, 12345, 12345)
        done = subprocess.run(
            [
                *OTHER_USER,
                *ONE_USER,
                launcher,
                "--scratch",
                scratch,
                "--processes",
                "24",
                "--",
                "/.weft-sandbox",
                "--self-test",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("network namespace\ton\t", done.stdout)
        self.assertIn("read-only system\ton\t", done.stdout)


if __name__ == "__main__":
    unittest.main()
