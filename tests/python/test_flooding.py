"""A model or a candidate that prints without end: what is kept of it is
bounded, and what it computes is judged as any other's."""

import json
import os
import unittest

from weft_case import QUICK, WeftCase, problem_with

#: A call's, to standard error and standard output.
FLOOD_BYTES = 10 << 20
PRINTS = (
    "import os\nos.set_blocking(2, True)\n\n\ndef flood():\n"
    f"    for _ in range({FLOOD_BYTES >> 16}):\n"
    "        os.write(2, b'e' * 65535 + b'\\n')\n"
    "        os.write(1, b'o' * 65535 + b'\\n')\n"
)
#: BoundedLog::bytes_max and what it says at the end.
LOG_BYTES_MAX = (8 << 20) + (64 << 10)
#: Of all that a run leaves: its logs are three.
RUN_BYTES_MAX = 4 * LOG_BYTES_MAX


def bytes_of(folder):
    """{path: size} of all files in it."""
    return {
        path: os.path.getsize(path)
        for where, _, names in os.walk(folder)
        for path in (os.path.join(where, name) for name in names)
    }


class Flooding(WeftCase):
    def assert_bounded(self, run):
        sizes = bytes_of(run)
        logs = {path: size for path, size in sizes.items() if f"{os.sep}logs{os.sep}" in path}
        for path, size in logs.items():
            self.assertLessEqual(size, LOG_BYTES_MAX, path)
        self.assertLess(sum(sizes.values()), RUN_BYTES_MAX, sizes)
        return logs

    def test_a_model_that_prints_in_each_call(self):
        file = self.write(
            "problem.py",
            problem_with(head=PRINTS, forward="flood()\n        return torch.relu(x) * 2"),
        )
        run = self.path("run")
        done = self.weft("run", file, "--out", run, *QUICK, timeout=600)
        self.assert_ends(done, 0)
        self.assertLess(len(done.stdout) + len(done.stderr), 1 << 20)
        logs = self.assert_bounded(run)
        # What was left out is said.
        full = max(logs, key=logs.get)
        with open(full, "rb") as log:
            self.assertIn(b"bytes more were printed", log.read())

    def test_a_model_that_prints_and_raises(self):
        file = self.write(
            "problem.py",
            problem_with(head=PRINTS, forward="flood()\n        raise ValueError('so far')"),
        )
        run = self.path("run")
        done = self.weft("run", file, "--out", run, *QUICK)
        self.assert_ends(done, 2, "so far", "problem.py:")
        self.assertLess(len(done.stdout) + len(done.stderr), 1 << 20)
        self.assert_bounded(run)

    def test_a_candidate_that_prints_is_judged_by_what_it_computes(self):
        reference = self.write("reference.py", problem_with())
        results = {
            "right": "torch.relu(x) * 2",
            "wrong": "torch.relu(x) * 2.01",
            "dead": "os._exit(3)",
        }
        files = [
            self.write(
                f"{name}.py",
                problem_with(
                    head=PRINTS,
                    forward=f"flood()\n        return {result}",
                ).replace("class Model(", "class ModelNew("),
            )
            for name, result in results.items()
        ]
        done = self.weft(
            "eval",
            reference,
            *files,
            "--json",
            "--no-compile-baseline",
            "--timing-ms",
            "20",
            timeout=600,
        )
        self.assertEqual(done.returncode, 1, done.stdout[-2000:] + done.stderr[-2000:])
        told = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(
            {
                os.path.basename(one["candidate"]): one["accepted"]
                for one in told
                if "candidate" in one
            },
            {"right.py": True, "wrong.py": False, "dead.py": False},
        )
        self.assertLess(len(done.stdout) + len(done.stderr), 1 << 16)


if __name__ == "__main__":
    unittest.main()
