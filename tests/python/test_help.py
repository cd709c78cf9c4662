"""The command line's own words: help on one screen, completion scripts that shells run,
the manual page, and the reference page in docs/."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from weft_case import ROOT, WEFT

REFERENCE = os.path.join(ROOT, "docs", "reference", "command-line.md")
SCREEN_LINES, SCREEN_COLUMNS = 30, 80
ANSWERS = """
COMP_WORDS=({words}) COMP_CWORD={last}
compopt() {{ :; }}
_weft
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def weft(*words: str) -> str:
    return subprocess.run(
        [WEFT, *words], capture_output=True, text=True, check=True, timeout=60
    ).stdout


class Help(unittest.TestCase):
    def test_help_fits_a_screen(self):
        lines = weft("--help").splitlines()
        self.assertLessEqual(len(lines), SCREEN_LINES)
        self.assertLessEqual(max(map(len, lines)), SCREEN_COLUMNS)

    def test_help_groups_every_command(self):
        listed = re.findall(r"^  ([a-z]+) ", weft("--help"), re.MULTILINE)
        known = re.findall(
            r"-f -a ([a-z]+) -d",
            "\n".join(
                line
                for line in weft("completion", "fish").splitlines()
                if "__fish_use_subcommand" in line
            ),
        )
        self.assertEqual(sorted(listed), sorted(known))

    def test_without_a_command_it_says_what_to_do_first(self):
        done = subprocess.run([WEFT], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("weft doctor", done.stderr)

    def test_a_wrong_value_names_the_option_and_the_help(self):
        done = subprocess.run(
            [WEFT, "run", "p.py", "--target", "tpu"], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "^weft: --target: tpu .*; 'weft run --help' lists all\n$")


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="weft-completion-")
        cls.addClassCleanup(folder.cleanup)
        cls.scripts = {}
        for shell in ("bash", "zsh", "fish"):
            cls.scripts[shell] = os.path.join(folder.name, shell)
            with open(cls.scripts[shell], "w", encoding="utf-8") as file:
                file.write(weft("completion", shell))

    def bash(self, *words: str) -> list[str]:
        code = f"source {self.scripts['bash']}" + ANSWERS.format(
            words=" ".join(f"'{word}'" for word in words), last=len(words) - 1
        )
        return subprocess.run(
            ["bash", "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()

    def test_bash_completes_commands_options_and_values(self):
        self.assertIn("run", self.bash("weft", ""))
        self.assertEqual(self.bash("weft", "llm", "ch"), ["check"])
        self.assertEqual(self.bash("weft", "run", "p.py", "--targ"), ["--target"])
        self.assertIn("triton", self.bash("weft", "run", "--target", ""))
        self.assertEqual(self.bash("weft", "run", ""), [])  # files, by default

    def test_fish_completes_commands_and_values(self):
        if not shutil.which("fish"):
            self.skipTest("no fish")
        code = f"source {self.scripts['fish']}; complete -C 'weft run --target '"
        listed = subprocess.run(
            ["fish", "--no-config", "-c", code], text=True, capture_output=True, check=True
        ).stdout
        self.assertIn("triton", listed)

    def test_zsh_reads_its_script(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        subprocess.run(["zsh", "-f", "-n", self.scripts["zsh"]], check=True)


class Manual(unittest.TestCase):
    def test_the_reference_page_is_the_programs(self):
        with open(REFERENCE, encoding="utf-8") as file:
            self.assertEqual(
                file.read(),
                weft("manual", "markdown"),
                "write it again: build/weft manual markdown > docs/reference/command-line.md",
            )

    def test_the_manual_page_names_every_option(self):
        page = weft("manual", "man").replace("\\-", "-")
        for option in set(re.findall(r"\| `(--[a-z-]+)", weft("manual", "markdown"))):
            self.assertIn(option, page)

    def test_the_manual_page_is_well_formed(self):
        if not shutil.which("mandoc"):
            self.skipTest("no mandoc")
        done = subprocess.run(
            ["mandoc", "-T", "lint", "-W", "error"],
            text=True,
            input=weft("manual", "man"),
            capture_output=True,
            check=False,
        )
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
