"""`weft explain` prints why a problem is partitioned as it is, and what runs."""

import json
import os
import re

from weft_case import QUICK, ROOT, TINY, WeftCase


class ExplainTest(WeftCase):
    def explained(self, *words):
        done = self.weft("explain", *words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_the_page_has_every_field(self, result):
        with open(os.path.join(ROOT, "docs", "reference", "report.md"), encoding="utf-8") as file:
            [_, section] = file.read().split("## result.json of a run")
        listed = set(re.findall(r"`(\w+)`", section))
        fields = {*result, *result["machine"], *result["subgraphs"][0]}
        self.assertEqual(fields - listed, set())

    def test_problem_without_a_run(self):
        """Each pair has its reason, and each kernel; nothing is left behind."""
        problem = self.write("tiny.py", TINY)
        before = set(os.listdir(self.folder))
        found = self.explained(problem, "--target", "cpu")
        self.assertTrue(found["as_recorded"])
        (partition,) = found["partitions"]
        pairs = {(one["producer"], one["consumer"]): one for one in partition["pairs"]}
        operators = {one["name"]: one["operator"] for one in partition["calls"]}
        self.assertTrue(all(one["reason"] for one in pairs.values()), pairs)
        self.assertEqual({one["fused"] for one in pairs.values()}, {True, False})
        for (producer, consumer), one in pairs.items():
            products = [name for name in (producer, consumer) if "linear" in operators[name]]
            for product in products:
                self.assertFalse(one["fused"])
                self.assertEqual(one["reason"], f"{product} stays PyTorch's")
        product = next(one for one in partition["calls"] if "linear" in one["operator"])
        self.assertFalse(product["generated"])
        self.assertIn("the compiler has no code", product["reason"])
        for subgraph in found["subgraphs"]:
            self.assertEqual(subgraph["runs"], "")
            for source in subgraph["sources"]:
                for kernel in source["kernels"]:
                    self.assertTrue(kernel["tile"] and kernel["reason"], kernel)
        self.assertEqual(set(os.listdir(self.folder)), before)

    def test_run(self):
        """The partition is the recorded one, and outcomes are the journal's."""
        problem = self.write("tiny.py", TINY)
        run = os.path.join(self.folder, "run")
        done = self.weft("run", problem, "--out", run, "--target", "cpu", *QUICK)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        found = self.explained(run)
        self.assertTrue(found["as_recorded"])
        with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.check_the_page_has_every_field(result)
        used = {one["id"]: one["ours"] for one in result["subgraphs"]}
        self.assertEqual({one["id"] for one in found["subgraphs"]}, set(used))
        for one in found["subgraphs"]:
            self.assertEqual(one["runs"].startswith("kernel "), used[one["id"]], one)
            self.assertTrue(one["reason"])
        text = self.weft("explain", run)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn("Pairs of neighbouring calls:", text.stdout)
        self.assertIn(": fused, because ", text.stdout)
        self.assertIn(": not fused, because ", text.stdout)
        self.assertIn(" runs, because ", text.stdout)

    def test_gpu_tiles(self):
        """For a GPU target, a product lists the tiles and their estimated times."""
        problem = self.write("product.py", PRODUCT)
        found = self.explained(problem, "--target", "triton", "--no-extern")
        kernels = [
            kernel
            for subgraph in found["subgraphs"]
            for kernel in subgraph["sources"][0]["kernels"]
        ]
        options = next(one["options"] for one in kernels if one["options"])
        self.assertGreater(len(options), 3)
        self.assertTrue(all(one["us"] > 0 for one in options))

    def test_refusals(self):
        done = self.weft("explain", os.path.join(self.folder, "nowhere.py"))
        self.assert_ends(done, 2, "nowhere.py")
        done = self.weft("explain", self.folder)
        self.assert_ends(done, 2)
        broken = self.write("broken.py", "import nothing_of_that_name\n")
        done = self.weft("explain", broken)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nothing_of_that_name", done.stdout + done.stderr)
        problem = self.write("tiny.py", TINY)
        done = self.weft("explain", problem, "--mode", "both", "--target", "cpu")
        self.assert_ends(done, 2, "eval", "train")


PRODUCT = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x @ y)


def get_inputs():
    return [torch.rand(512, 256), torch.rand(256, 384)]


def get_init_inputs():
    return []
"""


if __name__ == "__main__":
    import unittest

    unittest.main()
