"""Problems that need a network: a message names the reason, and it is no failure. And
what a hub's cache has, they get."""

import os
import unittest

from weft_case import QUICK, WeftCase, problem_with

from weft.problem import problem as problems

#: Stands for a package that asks a hub, with that package's own classes.
HUB = """
class {name}({base}):
    pass


{name}.__module__ = "{module}"


def fetched(name):
    try:
        raise {name}({text!r})
    except {name} as error:
        {end}
"""
ENDS = {
    "as it is": "raise",
    "as its cause": "raise ValueError(f'{name} is not to be had') from error",
    "as its context": "raise ValueError(f'{name} is not to be had')",
}
#: (module, class, base, text)
WANTS = (
    ("huggingface_hub.errors", "OfflineModeIsEnabled", "ConnectionError", "off"),
    ("huggingface_hub.errors", "LocalEntryNotFoundError", "FileNotFoundError", "not in the cache"),
    ("requests.exceptions", "ConnectionError", "OSError", "no route"),
    ("urllib3.exceptions", "MaxRetryError", "Exception", "no route"),
    ("httpx", "NetworkError", "Exception", "no route"),
    ("socket", "gaierror", "OSError", "unknown name"),
    (
        "transformers",
        "Other",
        "OSError",
        "We couldn't connect to 'https://huggingface.co' to load the files",
    ),
)
OTHERS = (
    ("transformers", "Other", "OSError", "gpt3 is not a local folder"),
    ("urllib.error", "HTTPError", "OSError", "404: not found"),
    ("somebody", "gaierror", "OSError", "mine"),
)
CONNECTS = """
import socket
import urllib.request


def fetched(name):
    urllib.request.urlopen('http://' + name + ':9/')
"""
CACHED = """
import os


def fetched(name):
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    with open(os.path.join(os.environ["HF_HUB_CACHE"], name)) as file:
        return float(file.read())
"""
OF_THE_HUB = "self.factor = fetched('large-model')"


def problem_of(hub, init=OF_THE_HUB):
    return hub + problem_with(init=init, forward="return x * self.factor")


def hub_of(want, end="as it is"):
    module, name, base, text = want
    return HUB.format(module=module, name=name, base=base, text=text, end=ENDS[end])


class Wanted(WeftCase):
    def error_of(self, text):
        problem = problems.load_problem(self.write("problem.py", text))
        with self.assertRaises(problems.ProblemError) as caught:
            problems.build_model(problem)
        return caught.exception

    def assert_wants(self, text):
        error = self.error_of(text)
        self.assertEqual((error.code, error.kind), ("missing", "no_network"), error.message)
        self.assertIn("Model's constructor needs the network", error.message)
        self.assertIn("HF_HUB_CACHE", error.message)

    def test_what_packages_raise_is_known_at_any_depth(self):
        for want in WANTS:
            for end in ENDS:
                with self.subTest(want, end=end):
                    self.assert_wants(problem_of(hub_of(want, end)))

    def test_a_connection_that_is_not_made_is_known(self):
        for name in ("127.0.0.1", "no-such-host.invalid"):
            with self.subTest(name):
                self.assert_wants(problem_of(CONNECTS.replace("+ name +", f"+ {name!r} +")))

    def test_other_failures_are_the_problem_s(self):
        for want in OTHERS:
            with self.subTest(want):
                error = self.error_of(problem_of(hub_of(want)))
                self.assertEqual(error.code, "wrong_input", error.message)

    def test_a_file_that_asks_while_it_is_loaded_is_known(self):
        text = hub_of(WANTS[0]) + "fetched('large-model')\n" + problem_with()
        with self.assertRaisesRegex(
            problems.ProblemError, "importing problem.py needs the network"
        ):
            problems.load_problem(self.write("problem.py", text))


class Runs(WeftCase):
    """Of the real program."""

    def test_it_ends_with_3_and_says_what_to_do(self):
        done = self.weft(
            "run", self.write("problem.py", problem_of(CONNECTS)), "--out", self.path("run"), *QUICK
        )
        self.assert_ends(done, 3, "problem.py", "needs the network", "HF_HUB_CACHE")

    def test_what_the_hub_s_cache_has_a_problem_gets(self):
        os.makedirs(self.path("home/hub"))
        with open(self.path("home/hub/large-model"), "w", encoding="utf-8") as file:
            file.write("3.0")
        done = self.weft(
            "run",
            self.write("problem.py", problem_of(CACHED)),
            "--out",
            self.path("run"),
            *QUICK,
            HF_HOME=self.path("home"),
            HF_HUB_CACHE=None,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
