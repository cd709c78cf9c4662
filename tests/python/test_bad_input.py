"""For every error, weft prints one clear message and ends with its exit code: 2 if the user
can correct the input, 3 if the machine lacks something."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import unittest

from weft_case import QUICK, ROOT, WEFT, WeftCase, environment, problem_with

CPU_NAMES = "cpu"


class InputTest(WeftCase):
    """What is refused before anything runs."""

    def assert_refused(self, words, code, *said):
        done = self.weft(*words)
        self.assert_ends(done, code, *said)
        self.assertFalse(os.path.exists(self.path("run")), done.stderr)

    def run_words(self, file):
        return ["run", file, "--out", self.path("run"), *QUICK]

    def test_a_missing_file(self):
        self.assert_refused(self.run_words(self.path("none.py")), 2, "there is no file", "none.py")

    def test_a_folder(self):
        self.assert_refused(self.run_words(self.folder), 2, "is a folder, not a file: 'weft bench'")

    def test_a_name_that_is_not_utf_8(self):
        file = os.path.join(os.fsencode(self.folder), b"odd\xff.py")
        os.rename(self.write("problem.py", problem_with()), file)
        self.assert_refused(
            self.run_words(os.fsdecode(file)), 2, "odd\ufffd.py", "is not UTF-8: rename it"
        )
        done = self.weft(
            "run",
            self.write("problem.py", problem_with()),
            "--out",
            os.fsdecode(os.fsencode(self.path("o")) + b"\xff"),
        )
        self.assert_ends(done, 2, "o\ufffd is not UTF-8: choose another")

    @unittest.skipIf(os.geteuid() == 0, "root may read every file")
    def test_a_file_that_may_not_be_read(self):
        file = self.write("secret.py", problem_with())
        os.chmod(file, 0)
        self.assert_refused(self.run_words(file), 2, "cannot read", "Permission denied")

    def test_a_flag_by_its_earlier_name_works_and_a_line_says_today_s(self):
        done = self.weft("simulate", "--seeds", "3")
        self.assert_ends(done, 0, "--seeds is called --random-seeds now")
        self.assertIn("1 runs", done.stdout)
        self.assert_refused(
            [
                "run",
                self.path("none.py"),
                "--out",
                self.path("run"),
                "--seed=4",
                "--accept",
                "near-eager",
            ],
            2,
            "--seed is called --random-seed now",
            "--accept near-eager is called --accept kernelbench now",
            "there is no file",
        )

    def test_an_unknown_flag(self):
        self.assert_refused(
            ["run", "x.py", "--no-such-flag"],
            2,
            "weft: there is no option '--no-such-flag': 'weft run --help' lists all",
        )

    def test_a_missing_argument(self):
        self.assert_refused(
            ["eval", "reference.py"],
            2,
            "weft: candidates is required (Python files with ModelNew or "
            "kernel_function); 'weft eval --help' lists all",
        )
        self.assert_refused(["run"], 2, "weft: problem is required (Python file with Model")
        self.assert_refused(["export"], 2, "weft: A subcommand is required; 'weft export")

    def test_a_mistyped_flag(self):
        self.assert_refused(
            ["run", "--taget", "cpu", "x.py"],
            2,
            "weft: there is no option '--taget'; did you mean --target? 'weft run --help'",
        )
        self.assert_refused(
            ["export", "csv", "run", "--verbos=1"],
            2,
            "weft: there is no option '--verbos'; did you mean --verbose? 'weft export csv --help'",
        )

    def test_a_flag_given_twice(self):
        self.assert_refused(
            ["run", "x.py", "--random-seed", "1", "--random-seed", "2"],
            2,
            "--random-seed is given twice: give it once",
        )

    def test_no_verb(self):
        self.assert_refused([], 2, "Begin with")
        self.assert_refused(["-v"], 2, "weft: name a command before '-v'")
        self.assert_refused(["--jobs", "3", "run", "x.py"], 2, "name a command before '--jobs'")

    def test_a_command_that_does_not_exist(self):
        self.assert_refused(
            ["rnu", "x.py", "--random-seed", "1"],
            2,
            "weft: there is no command 'rnu': 'weft --help' lists all",
        )
        self.assert_refused(
            ["reume", "run"],
            2,
            "weft: there is no command 'reume'; did you mean resume? 'weft --help' lists all",
        )

    def test_a_folder_that_is_gone(self):
        script = 'mkdir "$1" && cd "$1" && rmdir "$1" && exec "$2" run "$3"'
        done = subprocess.run(
            [
                "sh",
                "-c",
                script,
                "sh",
                self.path("gone"),
                WEFT,
                self.write("problem.py", problem_with()),
            ],
            capture_output=True,
            text=True,
            env=environment(),
        )
        self.assert_ends(done, 2, "the folder that weft was started in is gone")

    def test_an_unknown_source_of_seeds(self):
        self.assert_refused(
            ["run", "x.py", "--seeds", "oracle-of-delphi"], 2, "oracle-of-delphi", "compiler"
        )

    def test_an_unknown_target(self):
        self.assert_refused(["run", "x.py", "--target", "abacus"], 2, "abacus", CPU_NAMES)

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU")
    def test_a_target_that_needs_a_gpu_where_there_is_none(self):
        file = self.write("model.py", problem_with())
        for target in ("cuda", "gpu"):
            self.assert_refused(
                [*self.run_words(file), "--target", target], 3, "no CUDA device", "--target triton"
            )

    def test_seeds_of_a_simulation_that_are_no_range(self):
        self.assert_refused(["simulate", "--random-seeds", "9..1"], 2, "A..B")

    def test_an_out_folder_that_cannot_be_made(self):
        file = self.write("problem.py", problem_with())
        done = self.weft("run", file, "--out", os.path.join(file, "run"))
        self.assert_ends(done, 3, "cannot make the run directory")

    def test_an_error_as_json(self):
        done = self.weft("run", self.path("none.py"), "--json")
        self.assertEqual(done.returncode, 2)
        self.assertIn('"exit_code":2', done.stdout)
        self.assertIn("there is no file", done.stdout)


class ProblemTest(WeftCase):
    """What the capture finds wrong with a problem file. The journal keeps it."""

    def assert_rejected(self, text, *said, code=2, flags=(), **changes):
        file = self.write("problem.py", text)
        done = self.weft("run", file, "--out", self.path("run"), *QUICK, *flags, **changes)
        self.assert_ends(done, code, *said)
        self.assertNotIn("Traceback", done.stderr)
        self.assert_replays(self.path("run"))
        shown = self.weft("show", self.path("run"))
        self.assertIn(done.stderr.splitlines()[0][len("weft: ") :][:60], shown.stdout)

    def test_a_syntax_error(self):
        self.assert_rejected("import torch\n\ndef broken(:\n    pass\n", "problem.py", "line 3")

    def test_no_model(self):
        self.assert_rejected("import torch\n", "Model")

    def test_a_constructor_that_raises(self):
        self.assert_rejected(
            problem_with(init="raise ValueError('no such width')"), "no such width", "problem.py:7"
        )

    def test_a_forward_that_raises(self):
        self.assert_rejected(
            problem_with(forward="raise RuntimeError('out of sorts')"),
            "out of sorts",
            "problem.py:10",
        )

    def test_a_forward_that_returns_nothing(self):
        self.assert_rejected(
            problem_with(forward="torch.relu(x)"), "returns None, and no tensor", "problem.py:9"
        )

    def test_a_forward_that_never_returns(self):
        self.assert_rejected(
            problem_with(forward="while True: pass"),
            "did not return within",
            "--capture-seconds",
            flags=("--capture-seconds", "15"),
        )

    def test_inputs_that_do_not_fit(self):
        self.assert_rejected(problem_with(inputs="[torch.rand(2), torch.rand(2)]"), "forward")

    def test_control_flow_that_depends_on_data(self):
        self.assert_rejected(
            problem_with(forward="return x if x.sum() > 0 else -x"), "problem.py:10"
        )

    def test_a_dtype_that_is_not_supported(self):
        self.assert_rejected(
            problem_with(forward="return x * 2", inputs="[torch.rand(4, dtype=torch.complex64)]"),
            "problem.py: its argument x is complex64",
        )

    def test_a_model_too_large_for_the_memory(self):
        self.assert_rejected(
            problem_with(init="self.w = nn.Parameter(torch.ones(1 << 30))"),
            "memory",
            "--memory-gib",
            flags=("--memory-gib", "1.5"),
        )


class MachineTest(WeftCase):
    """What the machine lacks: exit code 3, and what to do."""

    def run_on(self, preexec_fn=None, flags=(), **changes):
        file = self.write("problem.py", problem_with())
        return self.weft(
            "run", file, "--out", self.path("run"), *QUICK, *flags, preexec_fn=preexec_fn, **changes
        )

    def test_no_compiler(self):
        done = self.run_on(CXX="/nonexistent/g++")
        self.assert_ends(done, 3, "no C++ compiler '/nonexistent/g++'", "CXX")

    def test_a_python_without_torch(self):
        bare = self.python_without_torch()
        done = self.run_on(WEFT_PYTHON=bare)
        self.assert_ends(done, 3, bare, "PyTorch", "tools/setup")

    def test_a_torch_that_is_too_old(self):
        info = os.path.join(self.folder, "old", "torch-2.1.0.dist-info")
        os.makedirs(info)
        with open(os.path.join(info, "METADATA"), "w", encoding="utf-8") as file:
            file.write("Metadata-Version: 2.1\nName: torch\nVersion: 2.1.0\n")
        done = self.run_on(PYTHONPATH=self.path("old"))
        self.assert_ends(done, 3, "PyTorch 2.1.0", "or newer")

    def test_a_python_that_is_not_there(self):
        done = self.run_on(flags=("--python", "/nonexistent/python"))
        self.assert_ends(done, 3, "--python", "/nonexistent/python")

    def test_a_python_that_is_none(self):
        done = self.run_on(WEFT_PYTHON="/bin/cat")
        self.assert_ends(done, 3, "/bin/cat", "does not work as a Python 3")

    def test_a_weft_without_its_python_side(self):
        alone = self.path("weft")
        shutil.copy(WEFT, alone)
        done = subprocess.run(
            [alone, "run", self.write("problem.py", problem_with())],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=environment(WEFT_HOME=None),
        )
        self.assert_ends(done, 3, "WEFT_HOME")

    def test_a_limit_of_file_size(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        done = self.run_on(preexec_fn=limit)
        self.assert_ends(done, 3, "limit of file size is 64 KiB", "ulimit -f")

    @unittest.skipIf(os.geteuid() != 0, "only root may mount a small disk")
    def test_a_disk_that_fills_up(self):
        disk = self.path("disk")
        os.mkdir(disk)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk],
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            self.skipTest("no tmpfs may be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        file = self.write("problem.py", problem_with())
        done = self.weft("run", file, "--out", os.path.join(disk, "run"), *QUICK)
        self.assertIn(done.returncode, (1, 3), done.stdout + done.stderr)
        self.assertRegex(done.stderr, "disk|space|full")


class JournalTest(WeftCase):
    """A run's folder that is not what it should be."""

    @classmethod
    def setUpClass(cls):
        """A finished run, and a cheap one: it only says that there is no
        Model."""
        cls.original = tempfile.mkdtemp(prefix="weft-case-")
        problem = os.path.join(cls.original, "problem.py")
        with open(problem, "w", encoding="utf-8") as file:
            file.write("import torch\n")
        done = subprocess.run(
            [WEFT, "run", problem, "--out", os.path.join(cls.original, "run")],
            capture_output=True,
            check=False,
            env=environment(),
        )
        assert done.returncode == 2, done

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.original)

    def setUp(self):
        super().setUp()
        self.run_folder = self.path("run")
        shutil.copytree(os.path.join(self.original, "run"), self.run_folder)
        self.journal = os.path.join(self.run_folder, "journal.db")

    def change(self, statement, values=()):
        with sqlite3.connect(self.journal) as database:
            database.execute(statement, values)
        database.close()

    def test_a_folder_that_is_no_run(self):
        for verb in ("resume", "replay", "show"):
            with self.subTest(verb):
                self.assert_ends(self.weft(verb, ROOT), 2, "is no run directory", "journal.db")

    def test_a_journal_from_a_newer_version(self):
        self.change("UPDATE meta SET value = '999' WHERE key = 'format'")
        for verb in ("resume", "replay", "show"):
            with self.subTest(verb):
                self.assert_ends(
                    self.weft(verb, self.run_folder), 2, "journal format 999", "update weft"
                )

    def test_a_message_from_a_newer_version(self):
        self.change("UPDATE event SET type = 'FutureMessage' WHERE seq = 2")
        self.assert_ends(self.weft("replay", self.run_folder), 1, "event 2")

    def test_a_damaged_journal(self):
        self.change("UPDATE event SET body = x'00' WHERE seq = 3")
        self.assert_ends(self.weft("replay", self.run_folder, "--check"), 1, "event 3")
        self.assert_ends(self.weft("resume", self.run_folder), 2, "event 3")

    def test_a_journal_without_its_last_event(self):
        self.change("DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)")
        self.assert_ends(self.weft("replay", self.run_folder), 1, "journal")
        self.assert_ends(self.weft("resume", self.run_folder), 2, "journal")

    def test_a_journal_that_is_no_database(self):
        with open(self.journal, "wb") as file:
            file.write(b"not a database at all" * 400)
        for verb, code in (("resume", 2), ("replay", 1), ("show", 2)):
            with self.subTest(verb):
                self.assert_ends(self.weft(verb, self.run_folder), code, "journal")

    def test_an_empty_journal(self):
        open(self.journal, "wb").close()
        self.assertEqual(self.weft("resume", self.run_folder).returncode, 2)


if __name__ == "__main__":
    unittest.main()
