"""Folders stand in layers: what includes or imports what has no circle.

A folder is one level below runtime/, compiler/ and the Python package (a folder
within it is its own part), else a top-level one. Files that lie in compiler/
itself join its folders to one whole, so they count as one folder.

Modules of the Python package have no import cycle either, and each file name is
used once in it. Within weft/backend a folder imports only folders below it.
"""

import ast
import collections
import glob
import os
import re
import unittest
from collections.abc import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CPP_FOLDERS = ("messages", "actors", "compiler", "runtime", "config", "tools")
#: Their folders, not they, are the rooms.
HOUSES = ("compiler", "runtime", "tools")
#: Folders of weft/backend, the highest first.
BACKEND_LAYERS = ("entry", "searches", "implementations", "graphs")
INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def cpp_room(path):
    parts = os.path.dirname(path).split("/")
    return "/".join(parts[:2] if parts[0] in HOUSES else parts[:1])


def cpp_uses():
    """{room: {room that it includes: (file, included)}}."""
    uses = {}
    for folder in CPP_FOLDERS:
        for path in sorted(glob.glob(f"{folder}/**/*.[ch]pp", root_dir=ROOT, recursive=True)):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                named = INCLUDED.findall(file.read())
            for other in named:
                if os.path.exists(os.path.join(ROOT, other)):
                    add(uses, cpp_room(path), cpp_room(other), (path, other))
    return uses


def python_uses():
    package = os.path.join(ROOT, "python")
    uses = {}
    for path in sorted(glob.glob("weft/**/*.py", root_dir=package, recursive=True)):
        with open(os.path.join(package, path), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for module in modules_named(tree):
            place = module.replace(".", "/")
            if os.path.isdir(os.path.join(package, place)):
                room = place
            elif os.path.exists(os.path.join(package, place + ".py")):
                room = os.path.dirname(place)
            else:
                continue
            add(uses, os.path.dirname(path), room, (path, module))
    return uses


def module_imports() -> dict[str, dict[str, tuple[str, str]]]:
    """{module: {module that it imports, anywhere in its text: (file, module)}}."""
    package = os.path.join(ROOT, "python")
    paths = {
        path[:-3].replace("/", ".").removesuffix(".__init__"): path
        for path in glob.glob("weft/**/*.py", root_dir=package, recursive=True)
    }
    uses: dict[str, dict[str, tuple[str, str]]] = {}
    for module, path in sorted(paths.items()):
        with open(os.path.join(package, path), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for named in modules_of(tree, paths):
            add(uses, module, named, (path, named))
    return uses


def modules_of(tree: ast.Module, paths: dict[str, str]) -> Iterator[str]:
    """`from a import b` names the module a.b if there is one, else the module a."""
    for node in without_types(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in paths)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in paths:
                    yield inner
                elif node.module in paths:
                    yield node.module


def backend_layer(module: str) -> int | None:
    """The index in BACKEND_LAYERS; None for modules outside these folders."""
    parts = module.split(".")
    if parts[:2] != ["weft", "backend"] or len(parts) < 3:
        return None
    return BACKEND_LAYERS.index(parts[2]) if parts[2] in BACKEND_LAYERS else None


def upward_imports(uses: dict[str, dict[str, tuple[str, str]]]) -> list[str]:
    """Imports in weft/backend that name a module of a higher folder."""
    found = []
    for module, imported in uses.items():
        for other in imported:
            layers = backend_layer(module), backend_layer(other)
            if None not in layers and layers[1] < layers[0]:
                found.append(f"{module} imports {other}")
    return found


def without_types(node):
    """All nodes but those below `if TYPE_CHECKING:`, which no program runs."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield from without_types(child)


def modules_named(tree):
    """Of every import, wherever it stands: a late one is one all the same."""
    for node in without_types(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


def add(uses, room, other, by):
    if room != other:
        uses.setdefault(room, {}).setdefault(other, by)


def circle_in(uses):
    """Rooms of which each uses the next and the last the first; [] if none."""
    done, path = set(), []

    def visit(room):
        if room in path:
            return path[path.index(room) :] + [room]
        if room in done:
            return []
        path.append(room)
        for other in sorted(uses.get(room, {})):
            circle = visit(other)
            if circle:
                return circle
        path.pop()
        done.add(room)
        return []

    for room in sorted(uses):
        circle = visit(room)
        if circle:
            return circle
    return []


def story(uses):
    circle = circle_in(uses)
    return [
        f"{one} uses {other}: {' -> '.join(uses[one][other])}"
        for one, other in zip(circle, circle[1:])
    ]


class FoldersTest(unittest.TestCase):
    def test_no_circle_in_cpp(self):
        uses = cpp_uses()
        self.assertIn("compiler/loops", uses["compiler/cpu"])
        self.assertEqual(story(uses), [])

    def test_no_circle_in_python(self):
        uses = python_uses()
        self.assertIn("weft/judge", uses["weft/oracle"])
        # The files of both packages themselves offer what lies in their folders.
        uses.pop("weft")
        uses.pop("weft/backend")
        self.assertEqual(story(uses), [])

    def test_modules_of_the_package_have_no_import_cycle(self) -> None:
        uses = module_imports()
        self.assertIn("weft.problem.attribute_buffers", uses["weft.problem.problem"])
        self.assertEqual(story(uses), [])

    def test_backend_folders_import_only_folders_below(self) -> None:
        uses = module_imports()
        self.assertEqual(upward_imports(uses), [])
        used = {
            backend_layer(other)
            for module, imported in uses.items()
            if backend_layer(module) == 0
            for other in imported
        }
        self.assertLessEqual({0, 1, 2, 3}, used)

    def test_an_upward_import_in_backend_is_found(self) -> None:
        lower, higher = "weft.backend.graphs.a", "weft.backend.entry.b"
        at = ("", "")
        self.assertEqual(upward_imports({higher: {lower: at}}), [])
        self.assertEqual(upward_imports({lower: {higher: at}}), [f"{lower} imports {higher}"])
        self.assertEqual(upward_imports({lower: {"weft.backend.options": at}}), [])

    def test_backend_has_its_folders_and_its_options(self) -> None:
        backend = os.path.join(ROOT, "python", "weft", "backend")
        self.assertEqual(
            sorted(name for name in os.listdir(backend) if name != "__pycache__"),
            sorted(["__init__.py", "options.py", *BACKEND_LAYERS]),
        )

    def test_file_names_of_the_package_are_unique(self) -> None:
        paths = glob.glob("weft/**/*.py", root_dir=os.path.join(ROOT, "python"), recursive=True)
        counts = collections.Counter(map(os.path.basename, paths))
        counts.pop("__init__.py")
        self.assertEqual([name for name, n in counts.items() if n > 1], [])

    def test_a_circle_is_found(self):
        uses = {"a": {"b": ("a/1", "b/1")}, "b": {"c": ("b/1", "c/1")}, "c": {"b": ("c/1", "b/2")}}
        self.assertEqual(circle_in(uses), ["b", "c", "b"])
        self.assertEqual(len(story(uses)), 2)
        self.assertEqual(circle_in({"a": {"b": ("a/1", "b/1")}}), [])


if __name__ == "__main__":
    unittest.main()
