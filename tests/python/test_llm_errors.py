"""Errors for a user who asks a language model for the first time: each
error says what happened, to what, and what to do."""

import json
import os
import socket
import subprocess
import unittest

from llm_server import LlmServer
from test_llm_wire import KEY, Wire
from weft_case import problem_with

#: Where no proxy is.
NOBODY = "http://127.0.0.1:1"


class Errors(Wire):
    def setUp(self):
        super().setUp()
        # Nobody is there: what is said here is said before any call.
        self.path = self.settings("http://127.0.0.1:1/v1")

    def told(self, code, *words, given, **variables):
        done = self.weft(*given, **variables)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, said)
        for word in words:
            self.assertIn(word, said)
        self.assertNotIn("Traceback", said)
        return said

    def check(self, code, *words, path=None, **variables):
        return self.told(
            code, *words, **variables, given=("llm", "check", "mini", "--config", path or self.path)
        )

    def run_of(self, code, *flags, words=(), **variables):
        """Of a run that is not to begin: it leaves no folder."""
        problem = os.path.join(self.folder, "problem.py")
        with open(problem, "w", encoding="utf-8") as file:
            file.write(problem_with())
        out = os.path.join(self.folder, "run")
        said = self.told(
            code,
            *words,
            **variables,
            given=("run", problem, "--out", out, "--config", self.path, "--no-library", *flags),
        )
        self.assertFalse(os.path.exists(out))
        return said

    def test_names(self):
        for command in ("check", "models"):
            with self.subTest(command):
                self.told(
                    2,
                    "'maxi'",
                    "declared are: mini",
                    given=("llm", command, "maxi", "--config", self.path),
                )
                self.told(2, "name is required", given=("llm", command, "--config", self.path))
        self.told(2, "[llm.mini]", "config.toml", given=("llm", "check", "mini"))
        self.run_of(2, "--llm", "maxi", words=("'maxi'", "declared are: mini"))
        self.run_of(2, "--seeds", "llm", words=("--llm NAME", "weft llm list"))
        self.run_of(
            2,
            "--seeds",
            "compiler,lm",
            "--llm",
            "mini",
            words=("'lm'", "library,compiler,inductor,llm"),
        )
        self.told(2, "--llm NAME", given=("run", "--describe", "a sum"))

    def test_numbers_out_of_range(self):
        for flag, value in (
            ("--rounds", "-1"),
            ("--samples", "0"),
            ("--budget-usd", "-1"),
            ("--budget-usd", "x"),
            ("--budget-tokens", "-5"),
            ("--search", "beam:0"),
        ):
            with self.subTest(flag + " " + value):
                self.run_of(2, "--seeds", "llm", "--llm", "mini", flag, value, words=(flag, value))

    def test_a_budget_of_money_without_prices(self):
        for flag in ("--budget-usd", "--subgraph-budget-usd"):
            with self.subTest(flag):
                self.run_of(
                    2,
                    "--seeds",
                    "llm",
                    "--llm",
                    "mini",
                    flag,
                    "1",
                    words=("[llm.mini] has no prices", "prices.input", "--budget-tokens"),
                )

    def test_what_is_free_has_prices_of_zero(self):
        for prices, is_refused in (({"prices.input": 0}, False), ({}, True)):
            path = self.settings("http://127.0.0.1:1/v1", **prices)
            said = self.told(
                2,
                given=(
                    "run",
                    "nofile.py",
                    "--seeds",
                    "llm",
                    "--llm",
                    "mini",
                    "--budget-usd",
                    "1",
                    "--config",
                    path,
                ),
            )
            self.assertEqual("has no prices" in said, is_refused, said)
            self.assertEqual("nofile.py" in said, not is_refused, said)

    def test_without_its_seeds_a_model_needs_no_key(self):
        self.told(
            2,
            "nofile.py",
            TEST_KEY="",
            given=(
                "run",
                "nofile.py",
                "--seeds",
                "compiler",
                "--llm",
                "mini",
                "--config",
                self.path,
            ),
        )

    def test_a_missing_key_ends_a_run_before_it_begins(self):
        self.run_of(
            3,
            "--seeds",
            "compiler,llm",
            "--llm",
            "mini",
            TEST_KEY="",
            words=("[llm.mini]", "TEST_KEY is not set", "key_env or key_file"),
        )
        self.told(
            3,
            "TEST_KEY is not set",
            TEST_KEY="",
            given=("run", "--describe", "a sum", "--llm", "mini", "--config", self.path),
        )

    def test_key_files(self):
        def with_key_file(place):
            return self.settings("http://127.0.0.1:1/v1", key_env="", key_file=place)

        place = os.path.join(self.folder, "key")
        self.check(3, place + " cannot be read", "set key_file", path=with_key_file(place))
        self.check(3, "is a folder", path=with_key_file(self.folder))
        with open(place, "w", encoding="utf-8"):
            pass
        self.check(3, place + " is empty", path=with_key_file(place))
        with open(place, "w", encoding="utf-8") as file:
            file.write("two words\n")
        self.check(3, place, "is no key", path=with_key_file(place))

    def test_a_key_file_that_others_can_read(self):
        place = os.path.join(self.folder, "key")
        with open(place, "w", encoding="utf-8") as file:
            file.write(KEY + "\n")
        with LlmServer(lambda call: "ready") as server:
            path = self.settings(server.openai_url, key_env="", key_file=place)
            for mode, is_open in ((0o644, True), (0o640, True), (0o600, False)):
                os.chmod(place, mode)
                said = self.check(0, path=path)
                self.assertEqual("chmod 600 " + place in said, is_open, said)
                listed = self.told(0, given=("llm", "list", "--config", path))
                self.assertEqual("chmod 600" in listed, is_open, listed)

    def test_settings_that_are_wrong(self):
        def written(text):
            path = os.path.join(self.folder, "wrong.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("[llm.mini]\n" + text)
            return path

        for text, *words in (
            ('model = "m"\ndialect = "openay"\n', "wrong.toml:3", "openai, anthropic or responses"),
            ('model = "m"\nmodell = "m"\n', "wrong.toml:3", "modell", "max_output_tokens"),
            ('model = "m"\nbase_url = "api.openai.com/v1"\n', "wrong.toml:3", "https://"),
            ('model = "m"\nfallbacks = ["none"]\n', "wrong.toml:3", "'none'", "mini"),
            ('base_url = "https://a.example/v1"\n', "llm.mini.model", "as its provider does"),
            (
                'model = "m"\nlimits = { requests_per_minute = -3 }\n',
                "wrong.toml:3",
                "requests_per_minute",
                "-3",
            ),
            ("model = \n", "wrong.toml"),
        ):
            with self.subTest(text):
                self.check(2, *words, path=written(text))
        self.check(2, "no file of settings nofile.toml", path="nofile.toml")

    def test_hosts_that_cannot_be_reached(self):
        self.check(1, "mini (127.0.0.1:1)", "base_url", "[llm.mini]")
        self.check(
            1,
            "model.invalid",
            "base_url of [llm.mini]",
            "network",
            path=self.settings("https://model.invalid/v1"),
        )
        with socket.socket() as taken:  # bound, not listening
            taken.bind(("127.0.0.1", 0))
            proxy = f"http://127.0.0.1:{taken.getsockname()[1]}"
            self.check(
                1,
                "proxies: HTTPS_PROXY",
                HTTPS_PROXY=proxy,
                path=self.settings("https://model.invalid/v1"),
            )
        self.check(
            2, "unencrypted", "plain_http = true", path=self.settings("http://model.invalid/v1")
        )

    def test_a_name_that_is_not_answered_for_is_not_waited_for(self):
        """By a resolver that hangs, as where packets to it are dropped."""
        source = os.path.join(self.folder, "hangs.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(
                '#include <unistd.h>\nextern "C" int getaddrinfo('
                "const char*, const char*, const void*, void*) "
                "{ for (;;) pause(); }\n"
            )
        hangs = os.path.join(self.folder, "hangs.so")
        subprocess.run(["g++", "-shared", "-fPIC", source, "-o", hangs], check=True)
        self.check(
            1,
            "not answered within 500 ms",
            LD_PRELOAD=hangs,
            path=self.settings("https://model.invalid/v1", wall_ms=500),
        )

    def test_a_proxy_is_used_and_spared(self):
        for variable in ("HTTP_PROXY", "http_proxy"):
            with self.subTest(variable), LlmServer(lambda call: "ready") as proxy:
                self.check(
                    0,
                    path=self.settings("http://model.invalid/v1", plain_http=True),
                    **{variable: proxy.url},
                )
                self.assertTrue(
                    proxy.calls[0].path.startswith("http://model.invalid/v1/"), proxy.calls[0].path
                )
        with LlmServer(lambda call: "ready") as proxy:
            self.check(
                1,
                path=self.settings("http://model.invalid/v1", plain_http=True),
                HTTP_PROXY=proxy.url,
                NO_PROXY="model.invalid",
            )
            self.assertEqual(proxy.calls, [])

    def test_a_server_of_this_machine_is_asked_directly(self):
        with LlmServer(lambda call: "ready") as server:
            port = server.openai_url.rpartition(":")[2]
            for host in ("127.0.0.1", "localhost", "LocalHost"):
                path = self.settings(f"http://{host}:{port}")
                for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
                    with self.subTest(host, variable=variable):
                        self.check(0, path=path, **{variable: NOBODY})

    def test_whose_host_only_begins_like_this_machine_is_not_asked_directly(self):
        for host in ("localhost.invalid", "127.0.0.1.invalid"):
            with self.subTest(host), LlmServer(lambda call: "ready") as proxy:
                self.check(
                    0,
                    path=self.settings(f"http://{host}/v1", plain_http=True),
                    HTTP_PROXY=proxy.url,
                )
                self.assertEqual(len(proxy.calls), 1)
                # The key needs another's word to go there.
                self.check(2, "unencrypted", path=self.settings(f"http://{host}/v1"))

    def test_an_empty_proxy_is_none(self):
        with LlmServer(lambda call: "ready") as proxy:
            path = self.settings("http://model.invalid/v1", plain_http=True)
            for variables in (
                {"HTTP_PROXY": ""},
                {"http_proxy": ""},
                {"HTTP_PROXY": NOBODY, "http_proxy": ""},
            ):
                with self.subTest(variables):
                    self.check(0, path=path, ALL_PROXY=proxy.url, **variables)
            self.assertEqual(len(proxy.calls), 3)

    def test_a_check_is_one_line_for_each_thing(self):
        with LlmServer(lambda call: "one\ntwo") as server:
            said = self.check(0, path=self.settings(server.openai_url))
        self.assertIn(f"answer    {json.dumps('one' + chr(10) + 'two')} (stop)", said)
        self.assertIn("no prices are set", said)


if __name__ == "__main__":
    unittest.main()
