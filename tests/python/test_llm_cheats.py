"""Each cheat of tests/cheats also arrives as a language model's reply, and none
becomes a kernel of the run's.

A run a reference: all its cheats are samples of one request. The suite has the
references of SHORT; WEFT_ALL_CHEATS=1 has all of them (some minutes).
"""

import collections
import os
import unittest

import test_cheats
from llm_case import KERNEL, RIGHT, LlmCase, fenced
from llm_server import LlmServer, Reply

SHORT = ("relu",)
#: What the parsed file cannot show is left to the verdict.
ALL = os.environ.get("WEFT_ALL_CHEATS")

#: As a model would hand such a thing in.
HANDED_IN = """


_model = ModelNew()


def kernel_function(*inputs):
    return _model(*inputs)
"""


def as_kernel(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return fenced(text if "def kernel_function" in text else text + HANDED_IN)


def hostile(old, new):
    """A kernel that the parsed file says nothing against."""
    assert old in KERNEL
    return fenced(KERNEL.replace(old, new).replace("BODY", RIGHT.replace(" * 2.0f", "")))


RUN = "    run(x.data_ptr(), y.data_ptr(), x.numel())\n"
#: What rows of the catalogue look like with a kernel around them.
HOSTILE = {
    "O2_input": hostile(
        RUN,
        "    run(x.data_ptr(), x.data_ptr(), x.numel())\n"
        "    run(x.data_ptr(), y.data_ptr(), x.numel())\n",
    ),
    "O7_partial": hostile("x.numel())", "x.numel() - 1)"),
    "O11_constant": hostile(RUN, ""),
    "N3_identity": hostile(RUN, "    return x.view(x.shape)\n"),
    "T7_by_pointer": hostile(
        RUN,
        "    k = x.data_ptr()\n    if k not in KEPT:"
        "\n        run(k, y.data_ptr(), x.numel())\n"
        "        KEPT[k] = y\n    return KEPT[k]\n",
    ).replace("run = build()", "run = build()\nKEPT = {}"),
    "S2_decoy": hostile(RUN, "    return x * (x > 0)\n"),
}


class LlmCheats(LlmCase):
    def judged(self, reference, replies):
        """{answer's number: what became of it}."""
        with open(
            os.path.join(test_cheats.CHEATS, "references", reference + ".py"), encoding="utf-8"
        ) as file:
            problem = file.read()
        with LlmServer(lambda call: Reply(text=replies)) as server:
            done = self.run_weft(
                self.words(
                    server,
                    "--rounds",
                    "0",
                    samples=len(replies),
                    problem=problem,
                    out=reference,
                    native_samples=True,
                )
            )
        # The framework's own forward is what is left.
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = self.shown(out=reference)
        self.assertIn("keeps PyTorch's forward", told[-1]["summary"])
        return {one["seed"]: one for row in told[:-1] if "results" in row for one in row["results"]}

    def test_none_becomes_a_kernel(self):
        groups = collections.defaultdict(list)
        for sample in test_cheats.samples(test_cheats.CHEATS):
            if sample.name.startswith("honest_"):
                continue
            if ALL or sample.reference in SHORT:
                groups[sample.reference].append(sample)
        for reference, group in groups.items():
            with self.subTest(reference):
                names = [sample.name for sample in group]
                replies = [as_kernel(sample.path) for sample in group]
                if reference == "relu":
                    names += HOSTILE
                    replies += HOSTILE.values()
                found = self.judged(reference, replies)
                self.assertGreater(len(found), 0)
                for seed, one in found.items():
                    self.assertNotIn(one["kind"], ("correct", ""), f"{seed} of {names}: {one}")
                if reference == "relu":
                    judged = [one for one in found.values() if one["kind"] != "not_built"]
                    self.assertGreaterEqual(len(judged), len(HOSTILE))


if __name__ == "__main__":
    unittest.main()
