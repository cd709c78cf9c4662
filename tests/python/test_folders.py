"""Folders stand in layers: what includes or imports what has no circle.

A folder is one level below runtime/, compiler/ and the Python package (a folder
within it is its own part), else a top-level one. Files that lie in compiler/
itself join its folders to one whole, so they count as a folder of their own.
"""

import ast
import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
CPP_FOLDERS = ("messages", "actors", "compiler", "runtime", "config", "tools")
#: Their folders, not they, are the rooms.
HOUSES = ("compiler", "runtime", "tools")
INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def cpp_room(path):
    parts = os.path.dirname(path).split("/")
    return "/".join(parts[:2] if parts[0] in HOUSES else parts[:1])


def cpp_uses():
    """{room: {room that it includes: (file, included)}}."""
    uses = {}
    for folder in CPP_FOLDERS:
        for path in sorted(glob.glob(f"{folder}/**/*.[ch]pp", root_dir=ROOT,
                                     recursive=True)):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                named = INCLUDED.findall(file.read())
            for other in named:
                if os.path.exists(os.path.join(ROOT, other)):
                    add(uses, cpp_room(path), cpp_room(other), (path, other))
    return uses


def python_uses():
    package = os.path.join(ROOT, "python")
    uses = {}
    for path in sorted(glob.glob("weft/**/*.py", root_dir=package,
                                 recursive=True)):
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


def modules_named(tree):
    """Of every import, wherever it stands: a late one is one all the same."""
    for node in ast.walk(tree):
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
            return path[path.index(room):] + [room]
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
    return [f"{one} uses {other}: {' -> '.join(uses[one][other])}"
            for one, other in zip(circle, circle[1:])]


class FoldersTest(unittest.TestCase):
    def test_no_circle_in_cpp(self):
        uses = cpp_uses()
        self.assertIn("compiler/loops", uses["compiler/cpu"])
        self.assertEqual(story(uses), [])

    def test_no_circle_in_python(self):
        uses = python_uses()
        self.assertIn("weft/judge", uses["weft/oracle"])
        # The package's own file offers what the backend has.
        uses.pop("weft")
        self.assertEqual(story(uses), [])

    def test_a_circle_is_found(self):
        uses = {"a": {"b": ("a/1", "b/1")}, "b": {"c": ("b/1", "c/1")},
                "c": {"b": ("c/1", "b/2")}}
        self.assertEqual(circle_in(uses), ["b", "c", "b"])
        self.assertEqual(len(story(uses)), 2)
        self.assertEqual(circle_in({"a": {"b": ("a/1", "b/1")}}), [])


if __name__ == "__main__":
    unittest.main()
