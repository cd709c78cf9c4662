"""The documentation: generated pages are up to date, links lead somewhere, settings and
tutorial programs are real, and the site builds."""

import contextlib
import functools
import importlib.util
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from weft_case import ROOT, WEFT, tool

from weft.bench import results

DOCS = os.path.join(ROOT, "docs")
PAGES_OF_ROOT = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "THIRD_PARTY_LICENSES.md",
)
WORDS_README_MAX = 500


def pages() -> list[str]:
    """Every page."""
    found = [os.path.join(ROOT, name) for name in PAGES_OF_ROOT]
    for folder, _, names in os.walk(DOCS):
        found += [os.path.join(folder, name) for name in names if name.endswith(".md")]
    return sorted(found)


def text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def anchors_of(text: str) -> set[str]:
    """The fragments of a page's headings, as MkDocs and code hosts make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-"))
    return found


class Links(unittest.TestCase):
    def test_every_link_leads_to_a_page_and_a_heading(self):
        wrong = []
        for page in pages():
            for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, fragment = target.partition("#")
                path = (
                    os.path.normpath(os.path.join(os.path.dirname(page), path)) if (path) else page
                )
                if not os.path.exists(path):
                    wrong.append((os.path.relpath(page, ROOT), target))
                elif fragment and fragment not in anchors_of(text_of(path)):
                    wrong.append((os.path.relpath(page, ROOT), target))
        self.assertEqual(wrong, [])

    def test_every_path_below_docs_that_the_tree_names_exists(self):
        listed = subprocess.run(
            ["git", "grep", "-Il", "docs/"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if listed.returncode != 0:
            self.skipTest("no git checkout")
        missing = set()
        for name in listed.stdout.splitlines():
            if name == "CHANGELOG.md":  # names what was removed, too
                continue
            text = text_of(os.path.join(ROOT, name))
            # Not a part of a longer path or of an address.
            for path in re.findall(r"(?<![\w./])docs/[\w./-]*\w", text):
                if not os.path.exists(os.path.join(ROOT, path)):
                    missing.add((name, path))
        self.assertEqual(missing, set())

    def test_every_file_that_a_page_names_exists(self):
        folders = (
            "actors|benchmarks|cmake|compiler|config|examples|messages|python|runtime|tests|tools"
        )
        missing = set()
        for page in pages():
            for name in re.findall(rf"`((?:{folders})/[\w./-]+)`", text_of(page)):
                # "mine" is the reader's own, in the pages of development.
                if "mine" not in name and not os.path.exists(os.path.join(ROOT, name)):
                    missing.add((os.path.relpath(page, ROOT), name))
        self.assertEqual(missing, set())


class Commands(unittest.TestCase):
    """Command lines that pages show use commands and options that exist."""

    @staticmethod
    @functools.cache
    def options_of(*command: str) -> set[str]:
        """Empty: there is no such command."""
        done = subprocess.run(
            [WEFT, *command, "--help"], capture_output=True, text=True, check=False
        )
        return (
            set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", done.stdout))
            if not done.returncode
            else set()
        )

    @staticmethod
    def lines_of(page: str) -> list[str]:
        """The command lines of a page, whole if they continue on the next line."""
        text = re.sub(r"\\\n\s*", " ", text_of(page))
        lines = re.findall(r"^    (?:\$ |!)?(?:\w+=\S+ |srun )*(weft [a-z].*)$", text, re.MULTILINE)
        return lines + re.findall(r"`(weft (?:[a-z]+ [^`]*)?--?[^`]*)`", text)

    def test_every_command_and_option_that_a_page_uses_exists(self):
        wrong, checked = [], 0
        for page in pages():
            if page.endswith("command-line.md"):  # weft writes it
                continue
            for line in self.lines_of(page):
                words = re.split(r"\s+#|\s+[|>&]", line)[0].split()[1:]
                command = re.findall(r"^[a-z ]*", " ".join(words))[0].split()[:2]
                options = self.options_of(*command) or self.options_of(*command[:1])
                used = {word.partition("=")[0] for word in words if word[0] == "-"}
                checked += len(used)
                if not options or used - options:
                    wrong.append((os.path.relpath(page, ROOT), line, used - options))
        self.assertEqual(wrong, [])
        self.assertGreater(checked, 50)


class Columns(unittest.TestCase):
    def test_the_page_has_every_column_of_results_csv(self):
        page = text_of(os.path.join(DOCS, "reference", "report.md"))
        [section] = re.findall(r"^## results.csv\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
        listed = set()
        for row in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE):
            names = re.findall(r"`([a-z]\w*)`", row)
            # "`ours_us`, and `_p10_us` of each": ours_p10_us.
            suffixes = re.findall(r"`(_\w+)`", row)
            listed.update(names)
            listed.update(name.removesuffix("_us") + end for name in names for end in suffixes)
        self.assertEqual(set(results.COLUMNS) - listed, set())


class Messages(unittest.TestCase):
    #: PyTorch prints these, or the system, or weft joins two texts.
    OTHERS = (
        "Invalid backend: 'weft'",
        "x[x > 0]",
        "ulimit -n",
        "No space left on device",
        "not timed: the machine is too busy",
        "pip could not install torch",
    )

    def sources(self) -> str:
        """The text of weft's programs; literals of several lines are joined."""
        listed = subprocess.run(
            ["git", "ls-files", "actors", "compiler", "config", "python", "runtime", "tools"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if listed.returncode != 0:
            self.skipTest("no git checkout")
        names = [name for name in listed.stdout.split() if name.endswith((".cpp", ".hpp", ".py"))]
        text = "".join(text_of(os.path.join(ROOT, name)) for name in [*names, "tools/setup"])
        return re.sub(r'"\s*\n\s*f?"', "", text)

    def test_the_messages_of_troubleshooting_are_those_of_weft(self):
        page = text_of(os.path.join(DOCS, "how-to", "troubleshooting.md"))
        cells = " ".join(re.findall(r"^\| ([^|]*) \|", page, re.MULTILINE))
        quoted = [text for text in re.findall(r"`([^`]+)`", cells) if " " in text]
        self.assertGreater(len(quoted), 10)
        sources = self.sources()
        missing = [
            text
            for text in quoted
            if text not in self.OTHERS
            and not all(part.strip() in sources for part in re.split("…| N ", text))
        ]
        self.assertEqual(missing, [])


class Decisions(unittest.TestCase):
    PAGE = os.path.join(DOCS, "explanation", "architecture.md")
    ROW = re.compile(r"^\| ([^|]+\?) \| `([^`]+)` \| `(\w+)` \|$", re.MULTILINE)

    def test_each_deciding_function_is_defined_in_the_named_file(self):
        rows = self.ROW.findall(text_of(self.PAGE))
        asked = " ".join(question for question, _, _ in rows)
        for word in ("share a subgraph", "tile", "tolerance", "dead", "swap a kernel"):
            self.assertIn(word, asked)
        for question, path, name in rows:
            with self.subTest(question):
                text = text_of(os.path.join(ROOT, path))
                # A definition begins its line; a member's has its class before it.
                defined = (
                    rf"^ *def {name}\(|^{name}\b.* = "
                    if path.endswith(".py")
                    else rf"^[\w:<>, &*\[\]]*[ :&*]{name}\([^;]*?\)[\w ]*\{{"
                )
                self.assertRegex(text, re.compile(defined, re.MULTILINE))


class Pages(unittest.TestCase):
    def test_generated_pages_are_up_to_date(self):
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "tools", "docs"), "--check"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(
            done.returncode,
            0,
            done.stdout + done.stderr + "write them again: .venv/bin/python tools/docs",
        )

    def test_the_readme_is_short(self):
        words = text_of(os.path.join(ROOT, "README.md")).split()
        self.assertLessEqual(len(words), WORDS_README_MAX)

    def test_a_page_that_differs_from_its_source_is_named(self):
        # Another setting, another verdict, another operator: as if a source had changed.
        changes = {
            "settings.md": ("`timing_ms`, ", ""),
            "cheats.md": ("| every element", "| accepted: every element"),
            "operators.md": ("`silu`, ", ""),
            "tolerances.md": ("| 8 | 4 |", "| 8 | 5 |"),
        }
        docs = tool("docs")
        with tempfile.TemporaryDirectory() as folder:
            reference = os.path.join(folder, "docs", "reference")
            shutil.copytree(os.path.join(DOCS, "reference"), reference)
            for name, (before, after) in changes.items():
                path = os.path.join(reference, name)
                text = text_of(path)
                self.assertIn(before, text)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text.replace(before, after))
            told = io.StringIO()
            with (
                mock.patch.object(docs, "REFERENCE", pathlib.Path(reference)),
                mock.patch.object(docs, "ROOT", pathlib.Path(folder)),
                mock.patch.dict(os.environ, WEFT_BIN=WEFT),
                mock.patch.object(
                    docs, "api_page", lambda: text_of(os.path.join(reference, "python-api.md"))
                ),
                mock.patch.object(sys, "argv", ["docs", "--check"]),
                contextlib.redirect_stdout(told),
            ):
                self.assertEqual(docs.main(), 1)
            self.assertEqual(
                told.getvalue().splitlines(),
                [
                    f"docs: docs/reference/{name} is not up to date"
                    for name in ("operators.md", "settings.md", "cheats.md", "tolerances.md")
                ],
            )

    def test_the_site_builds_without_a_warning(self):
        if importlib.util.find_spec("material") is None:
            self.skipTest("no mkdocs-material")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "mkdocs",
                    "build",
                    "--strict",
                    "--quiet",
                    "--site-dir",
                    folder,
                ],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr[-4000:])
            self.assertTrue(os.path.exists(os.path.join(folder, "index.html")))


if __name__ == "__main__":
    unittest.main()
