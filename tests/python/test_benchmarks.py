"""The scripts of benchmarks/ import only what exists."""

import ast
import importlib.util
import os
import unittest

from weft_case import ROOT

BENCHMARKS = os.path.join(ROOT, "benchmarks")
#: Where the scripts look for modules, besides installed ones.
FOLDERS = [BENCHMARKS, os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "python")]
#: Packages that only some machines have.
OPTIONAL = {"kernelbench", "timm", "torchvision", "transformers", "triton"}


def file_of(module: str) -> str | None:
    """The file of a module of this checkout."""
    for folder in FOLDERS:
        path = os.path.join(folder, *module.split("."))
        for file in (path + ".py", os.path.join(path, "__init__.py")):
            if os.path.exists(file):
                return file
    return None


def names_of(file: str) -> set[str]:
    """The names that a file's outermost level defines."""
    with open(file, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    names = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    return names


def missing_imports(script: str) -> list[str]:
    """The modules that a script imports and that do not exist."""
    with open(script, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    missing = []
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        for module in modules:
            top = module.partition(".")[0]
            if top in OPTIONAL:
                continue
            file = file_of(module)
            if file is None:
                is_ours = file_of(top) is not None
                if is_ours or importlib.util.find_spec(top) is None:
                    missing.append(module)
            elif isinstance(node, ast.ImportFrom):
                defined = names_of(file)
                missing += [
                    f"{module}.{alias.name}"
                    for alias in node.names
                    if alias.name not in defined and file_of(f"{module}.{alias.name}") is None
                ]
    return missing


class Imports(unittest.TestCase):
    def test_scripts_import_only_what_exists(self):
        scripts = [name for name in os.listdir(BENCHMARKS) if name.endswith(".py")]
        self.assertGreater(len(scripts), 10)
        for name in sorted(scripts):
            with self.subTest(name):
                self.assertEqual(missing_imports(os.path.join(BENCHMARKS, name)), [])


if __name__ == "__main__":
    unittest.main()
