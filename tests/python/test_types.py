"""Type annotations of python/weft: all modules are annotated completely and
pass mypy in strict mode (mypy.ini)."""

import ast
import glob
import importlib.util
import os
import subprocess
import sys
import unittest
from collections.abc import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Text that weft prints into a user's module, where other pieces define its names, and a
#: kernel, whose annotations Triton reads.
PRINTED = (
    "weft/backend/graphs/graph_arguments.py",
    "weft/inductor/loader.py",
    "weft/regions/few_rows_kernel.py",
)


def strict_modules() -> list[str]:
    """Paths below python/ of all modules except PRINTED and *_part.py."""
    found = glob.glob("weft/**/*.py", root_dir=os.path.join(ROOT, "python"), recursive=True)
    return sorted(path for path in set(found) - set(PRINTED) if not path.endswith("_part.py"))


def unannotated(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of functions that lack an annotation of an argument or a result."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        given = node.args
        arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        arguments += [given_rest for given_rest in (given.vararg, given.kwarg) if given_rest]
        lacking = [
            argument.arg
            for argument in arguments
            if argument.annotation is None and argument.arg not in ("self", "cls")
        ]
        if lacking or node.returns is None:
            yield node.lineno, node.name


class Types(unittest.TestCase):
    def test_functions_of_strict_modules_are_annotated(self) -> None:
        paths = strict_modules()
        self.assertGreaterEqual(len(paths), 190)
        for path in paths:
            with open(os.path.join(ROOT, "python", path), encoding="utf-8") as file:
                with self.subTest(path):
                    self.assertEqual(list(unannotated(file.read())), [])

    def test_modules_that_are_left_out_exist(self) -> None:
        for path in PRINTED:
            self.assertTrue(os.path.exists(os.path.join(ROOT, "python", path)), path)

    def test_a_function_without_annotations_is_found(self) -> None:
        self.assertEqual(
            list(
                unannotated(
                    "def f(x: int): pass\n"
                    "def g(x, *, y: int) -> None: pass\n"
                    "class A:\n    def h(self, *args: int) -> None: pass\n"
                )
            ),
            [(1, "f"), (2, "g")],
        )

    def test_the_package_says_that_it_is_typed(self) -> None:
        self.assertTrue(os.path.exists(os.path.join(ROOT, "python", "weft", "py.typed")))

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_strict_modules_pass_the_type_checker(self) -> None:
        paths = [os.path.join("python", path) for path in strict_modules()]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "mypy",
                "--config-file",
                "mypy.ini",
                "--cache-dir",
                os.path.join("build", "mypy-cache"),
                *paths,
            ],
            cwd=ROOT,
            text=True,
            capture_output=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
