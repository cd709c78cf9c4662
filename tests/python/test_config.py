"""Settings from files, the environment and flags, the later the stronger."""

import json
import os
import subprocess
import tempfile
import unittest


class Config(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def weft(self, *words, **variables):
        environment = {
            "PATH": os.environ["PATH"],
            "XDG_CONFIG_HOME": os.path.join(self.folder, "home"),
        }
        return subprocess.run(
            [os.environ["WEFT_BIN"], *words],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.folder,
            check=False,
            env=environment | variables,
        )

    def config(self, *words, **variables):
        """name -> (value, from)"""
        done = self.weft("config", "--json", *words, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return {line["name"]: (line["value"], line["from"]) for line in lines}

    def test_defaults(self):
        config = self.config()
        self.assertEqual(config["run.timing_ms"], ("1500", "default"))
        self.assertEqual(config["run.target"], ("cpu", "default"))

    def test_each_source_is_stronger_than_the_one_before(self):
        self.write(
            "home/weft/config.toml",
            "[run]\njobs = 2\nvariants = 2\n"
            "random_seed = 2\ntiming_ms = 20\nfinal_timing_ms = 20\n",
        )
        self.write(
            "weft.toml",
            "[run]\nvariants = 3\nrandom_seed = 3\ntiming_ms = 30\nfinal_timing_ms = 30\n",
        )
        named = self.write(
            "more.toml", "[run]\nrandom_seed = 4\ntiming_ms = 40\nfinal_timing_ms = 40\n"
        )
        config = self.config(
            "--config",
            named,
            "--final-timing-ms",
            "60",
            WEFT_RUN_TIMING_MS="50",
            WEFT_RUN_FINAL_TIMING_MS="50",
        )
        home = os.path.join(self.folder, "home/weft/config.toml")
        self.assertEqual(config["run.jobs"], ("2", home + ":2"))
        self.assertEqual(config["run.variants"], ("3", "weft.toml:2"))
        self.assertEqual(config["run.random_seed"], ("4", named + ":2"))
        self.assertEqual(config["run.timing_ms"], ("50", "WEFT_RUN_TIMING_MS"))
        self.assertEqual(config["run.final_timing_ms"], ("60", "--final-timing-ms"))

    def test_an_earlier_name_is_read_and_its_name_of_today_is_said(self):
        self.write("weft.toml", "[run]\nseed = 3\n")
        done = self.weft("config", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("weft.toml:2: run.seed is called run.random_seed now", done.stderr)
        self.assertEqual(self.config()["run.random_seed"], ("3", "weft.toml:2"))
        self.assertEqual(self.config(WEFT_RUN_SEED="5")["run.random_seed"], ("5", "WEFT_RUN_SEED"))
        self.assertEqual(self.config("--seed=7")["run.random_seed"], ("7", "--random-seed"))

    def test_every_flag_of_run_is_a_setting_that_is_shown(self):
        named = self.write(
            "more.toml", '[run]\nlisten = "tcp://127.0.0.1:7070"\nnode_seconds = 5\n'
        )
        config = self.config("--config", named)
        self.assertEqual(config["run.listen"], ("tcp://127.0.0.1:7070", named + ":2"))
        self.assertEqual(config["run.node_seconds"], ("5", named + ":3"))
        self.write("weft.toml", "[run]\ntrain = true\n")
        self.assertEqual(self.config()["run.train"], ("true", "weft.toml:2"))

    def test_lists_and_flags(self):
        self.write(
            "weft.toml", '[run]\nseeds = ["compiler"]\nno_library = true\nfast_sync = true\n'
        )
        config = self.config()
        self.assertEqual(config["run.seeds"], ("compiler", "weft.toml:2"))
        self.assertEqual(config["run.no_library"], ("true", "weft.toml:3"))

    def test_what_is_typed_overrules_what_cannot_stand_beside_it(self):
        self.write("weft.toml", "[run]\nno_library = true\n")
        done = self.weft("run", "--library", "l.db", "nothing.py")
        self.assertIn("nothing.py", done.stderr)  # it got as far as the problem

    def test_errors_name_file_and_line(self):
        for text, place, words in (
            ("[run]\njobs = \n", "weft.toml:2", ""),
            ("[run]\njobs = 1000\n", "weft.toml:2", "256"),
            ('[run]\ntarget = "abacus"\n', "weft.toml:2", "abacus"),
            ("[run]\njobz = 1\n", "weft.toml:2", "run.jobz"),
            ("[run]\nfast_sync = 3\n", "weft.toml:2", "true or false"),
            ("[walk]\njobs = 1\n", "weft.toml:2", "walk.jobs"),
            ('[run]\npython = "/tmp/x"\n', "weft.toml:2", "run.python"),
        ):
            with self.subTest(text):
                self.write("weft.toml", text)
                for command in (["config"], ["run", "nothing.py"]):
                    done = self.weft(*command)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(place, done.stderr)
                    self.assertIn(words, done.stderr)

    def test_errors_of_a_provider_name_file_and_line(self):
        self.write("home/weft/config.toml", "[llm.a]\nmodel = 3\n")
        done = self.weft("config")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("config.toml:2", done.stderr)
        self.assertIn("quotes", done.stderr)

    def test_a_limit_that_is_no_number_is_refused(self):
        """No comparison with it holds: it would be none."""
        for words in (
            ("run", "nothing.py", "--budget-s"),
            ("run", "nothing.py", "--memory-gib"),
            ("run", "nothing.py", "--budget-usd"),
            ("run", "nothing.py", "--subgraph-budget-usd"),
            ("run", "nothing.py", "--listen", "tcp://127.0.0.1:0", "--node-seconds"),
            ("eval", "nothing.py", "nothing.py", "--memory-gib"),
            ("bench", ".", "--limit-minutes"),
            ("bench", ".", "--problem-minutes"),
            ("node", "--once", "--patience-seconds"),
        ):
            for text in ("nan", "-NaN", "nan(1)"):
                done = self.weft(*words, text)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{words[-1]}: Value {text} ", done.stderr)
        self.write("weft.toml", "[run]\nbudget_usd = nan\n")
        done = self.weft("run", "nothing.py")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("weft.toml:2", done.stderr)
        done = self.weft("config", WEFT_RUN_BUDGET_S="nan")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_a_wrong_variable_is_named(self):
        done = self.weft("config", WEFT_RUN_JOBS="many")
        self.assertEqual(done.returncode, 2)
        self.assertIn("WEFT_RUN_JOBS", done.stderr)
        done = self.weft("config", WEFT_RUN_BUDGET_SECONDS="9")
        self.assertEqual(done.returncode, 2)
        self.assertIn("WEFT_RUN_BUDGET_SECONDS: there is no such setting", done.stderr)

    def test_providers_are_shown_and_keys_are_not(self):
        named = self.write("more.toml", '[llm.mini]\nmodel = "m"\nkey_env = "K"\n')
        config = self.config(
            "--config", named, K="sk-secret-0123456789", WEFT_LLM_MINI_EFFORT="low"
        )
        self.assertEqual(config["llm.mini.model"], ("m", named + ":2"))
        self.assertEqual(config["llm.mini.key_env"], ("K", named + ":3"))
        self.assertEqual(config["llm.mini.effort"], ("low", "WEFT_LLM_MINI_EFFORT"))
        self.assertNotIn("sk-secret", str(config))

    def test_bytes_that_are_no_text_are_told_all_the_same(self):
        named = self.write("more.toml", '[llm.mini]\ndialect = "openai"\n')
        config = self.config("--config", named, WEFT_LLM_MINI_MODEL="m" + os.fsdecode(b"\xff"))
        self.assertEqual(config["llm.mini.model"], ("m\ufffd", "WEFT_LLM_MINI_MODEL"))

    def test_every_setting_has_a_default_that_its_flag_takes(self):
        for name, (value, origin) in self.config().items():
            self.assertEqual(origin, "default", name)
            self.assertNotIn(" ", value, name)


if __name__ == "__main__":
    unittest.main()
