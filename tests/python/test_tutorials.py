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

    def test_the_script_of_your_program_runs(self):
        [program] = programs_of("tutorials/your-program.md")
        self.assertRegex(program, BUDGET)
        script = self.write("gated_norm.py", BUDGET.sub(rf"\g<1>{SHORT_S}", program))
        done = subprocess.run(
            [sys.executable, script],
            text=True,
            timeout=600,
            capture_output=True,
            env=self.environment(),
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        difference = re.search(r"largest difference from eager: (\S+)", done.stdout)
        self.assertLess(float(difference[1]), 1e-4, done.stdout)
        self.assertRegex(done.stdout, r"\d of 1 (graph|region)")

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
