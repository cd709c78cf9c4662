"""The programs that the documentation shows are run as a reader would run them: the
tutorials' scripts, the example of a wrong kernel, and the notebook."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import unittest

from weft_case import ROOT, WEFT, WeftCase

DOCS = os.path.join(ROOT, "docs")
EXAMPLES = os.path.join(ROOT, "examples")
BUDGET = re.compile(r'("budget_s": |budget_s=)\d+')
SHORT_S = 25  # the pages' budgets are for people
RUN_NOTEBOOK = """
import nbclient, nbformat, sys
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("text", ""), output.get("data", {}).get("text/plain", ""))
"""


def text_of(*path: str) -> str:
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def programs_of(page: str) -> list[str]:
    """The blocks that a page marks as complete Python."""
    return re.findall(r"^```python\n(.*?)^```$", text_of(DOCS, page), re.MULTILINE | re.DOTALL)


def without_docstring(text: str) -> str:
    return re.sub(r'\A""".*?"""\s*', "", text, flags=re.DOTALL)


class Tutorials(WeftCase):
    def environment(self) -> dict[str, str]:
        """The environment of a program for which weft is installed, even if it is not."""
        os.makedirs(self.path("site/weft_kernels-0.dist-info"), exist_ok=True)
        self.write(
            "site/weft_kernels-0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: weft-kernels\nVersion: 0\n",
        )
        self.write(
            "site/weft_kernels-0.dist-info/entry_points.txt",
            "[torch_dynamo_backends]\nweft = weft.backend:compile\n",
        )
        path = os.pathsep.join(
            [
                os.path.join(ROOT, "python"),
                self.path("site"),
                *os.environ.get("PYTHONPATH", "").split(os.pathsep),
            ]
        )
        return dict(
            os.environ,
            WEFT_BIN=WEFT,
            WEFT_LIBRARY="",
            PYTHONPATH=path,
            WEFT_CACHE_DIR=self.path("cache"),
        )

    def test_the_first_kernel_is_the_example(self):
        [program] = programs_of("tutorials/first-kernel.md")
        example = text_of(EXAMPLES, "04_residual_layer_norm_gelu.py")
        self.assertEqual(program.strip(), without_docstring(example).strip())

    def run_script(self, name: str, text: str) -> str:
        """Saves a page's program under its name, runs it there and returns what it prints."""
        script = self.write(name, BUDGET.sub(rf"\g<1>{SHORT_S}", text))
        done = subprocess.run(
            [sys.executable, script],
            text=True,
            timeout=600,
            capture_output=True,
            env=self.environment(),
            cwd=self.path(""),
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_scripts_of_your_program_run(self):
        model, compiles, optimizes, loads = programs_of("tutorials/your-program.md")
        self.assertRegex(compiles, BUDGET)
        self.write("gated_norm.py", model)
        printed = self.run_script("compile_it.py", compiles)
        difference = re.search(r"largest difference from eager: (\S+)", printed)
        self.assertLess(float(difference[1]), 1e-4, printed)
        self.assertRegex(printed, r"\d of 1 (graph|region)")
        printed = self.run_script("optimize_it.py", optimizes)
        self.assertIn("accepted=True", printed)
        if os.path.exists(self.path("gated_norm.weft")):  # there was time for a kernel
            self.assertIn("[2048, 1024]", self.run_script("load_it.py", loads))

    def test_the_training_script_runs(self):
        [program] = programs_of("how-to/training.md")
        printed = self.run_script("train_it.py", program)
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", printed)]
        self.assertEqual(len(losses), 4, printed)
        self.assertLess(losses[-1], losses[0])
        for role in ("forward", "backward"):
            self.assertRegex(printed, rf"(?m)^{role} graph of \d+ operators")

    def test_the_script_for_any_batch_runs(self):
        [program] = programs_of("how-to/dynamic-shapes.md")
        printed = self.run_script("any_batch.py", program)
        differences = re.findall(r"batch \d+: largest difference (\S+)", printed)
        self.assertEqual(len(differences), 5, printed)
        self.assertLess(max(map(float, differences)), 1e-5)

    def test_the_scripts_of_serving_run(self):
        saves, loads = programs_of("how-to/serving.md")
        self.assertRegex(self.run_script("save_it.py", saves), "ready|no ")
        if os.path.exists(self.path("model.weft")):  # there was time for a kernel
            self.assertIn("[2048, 1024]", self.run_script("serve_it.py", loads))

    def test_the_problem_file_of_a_transformer_runs(self):
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("no transformers")
        [program] = programs_of("how-to/hugging-face.md")
        problem = self.write("bert.py", program)
        done = self.weft("run", problem, "--out", self.path("run"), "--budget-s", str(SHORT_S))
        self.assertIn("verified", done.stdout, done.stdout + done.stderr)

    def test_the_wrong_softmax_is_rejected_as_the_page_says(self):
        page = text_of(DOCS, "how-to", "judge-a-kernel.md")
        blocks = [
            re.sub(r"^    ", "", block, flags=re.MULTILINE).split()
            for block in re.findall(r"((?:^(?:    .*)?\n)+)", page, re.MULTILINE)
        ]
        for name in ("softmax.py", "softmax_without_max.py"):
            text = without_docstring(text_of(EXAMPLES, "judge", name))
            self.assertIn(text.split(), blocks, name)
        done = self.weft(
            "eval",
            os.path.join(EXAMPLES, "judge", "softmax.py"),
            os.path.join(EXAMPLES, "judge", "softmax_without_max.py"),
            "--no-timing",
        )
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("rejected (wrong)", done.stdout)

    def test_the_notebook_runs(self):
        if not all(map(importlib.util.find_spec, ("nbclient", "nbformat", "ipykernel"))):
            self.skipTest("no nbclient")
        notebook = json.loads(text_of(EXAMPLES, "notebook.ipynb"))
        for cell in notebook["cells"]:
            source = "".join(cell["source"])
            cell["source"] = BUDGET.sub(rf"\g<1>{SHORT_S}", source)
        path = self.write("notebook.ipynb", json.dumps(notebook))
        done = subprocess.run(
            [sys.executable, "-c", RUN_NOTEBOOK, path],
            text=True,
            timeout=900,
            capture_output=True,
            cwd=self.folder,
            env=self.environment(),
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        self.assertIn("eager, ms", done.stdout)

    def test_the_notebook_has_outputs(self):
        notebook = json.loads(text_of(EXAMPLES, "notebook.ipynb"))
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertTrue(all(cell["execution_count"] for cell in code))
        self.assertFalse(
            [
                output
                for cell in code
                for output in cell["outputs"]
                if output["output_type"] == "error"
            ]
        )


if __name__ == "__main__":
    unittest.main()
