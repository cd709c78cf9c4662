"""report.html in a real browser that has no network: Debian's chromium, where
it is installed (tools/test sees to it)."""

import base64
import json
import os
import re
import subprocess
import tempfile
import unittest

from browser import Browser, chromium
from made_journal import MadeRun
from weft_case import WEFT, WeftCase, environment

#: What would run, or end the page, if a journal's words were ever markup.
HOSTILE = (
    "</script><script>window.hacked=1</script>"
    '<img src=x onerror="window.hacked=1">'
    "'\"><svg onload=window.hacked=1> javascript:window.hacked=1 "
    "<!--<script> @DATA@ @SCRIPT@ ]]> &lt;b&gt; __proto__ \u2028"
)


class ReportCase(WeftCase):
    pages = {}

    @classmethod
    def setUpClass(cls):
        cls.folder_of_pages = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder_of_pages.cleanup)
        cls.pages = {}

    def page_of(self, name, **more):
        """A made run's page, as weft show --html writes it; made once."""
        folder = os.path.join(self.folder_of_pages.name, name)
        page = os.path.join(folder, "report.html")
        if name in self.pages:
            return page
        self.pages[name] = MadeRun(folder, **more)
        done = subprocess.run(
            [WEFT, "show", folder, "--html"],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.strip(), page)
        return page


class ReportFileTest(ReportCase):
    def test_it_names_no_other_file_and_no_network(self):
        with open(self.page_of("run"), encoding="utf-8") as file:
            text = file.read()
        self.assertNotRegex(text, r"<(link|img|iframe|base)\b")
        self.assertNotRegex(text, r"\bsrc\s*=\s*[\"']")
        self.assertIn("default-src 'none'", text)
        self.assertIn("connect-src 'none'", text)
        self.assertNotIn("unsafe-inline", text)

    def test_no_word_of_a_journal_ends_the_data(self):
        with open(self.page_of("hostile", word=lambda t: t + HOSTILE), encoding="utf-8") as file:
            text = file.read()
        data = re.search(r'id="data">(.*?)</script>', text, re.S).group(1)
        self.assertNotIn("<", data)
        self.assertTrue(data.endswith("}"), data[-40:])

    def test_it_goes_where_it_is_told_to(self):
        run = os.path.dirname(self.page_of("run"))
        out = self.path("elsewhere.html")
        done = subprocess.run(
            [WEFT, "show", run, "--html", out],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(out))

    def test_show_tells_what_came_of_what(self):
        run = os.path.dirname(self.page_of("run"))
        done = subprocess.run(
            [WEFT, "show", run], capture_output=True, text=True, check=False, env=environment()
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\n    llm-0  .*\n      llm-1  .*round 1")

    def show(self, name, *words, **more):
        run = os.path.dirname(self.page_of(name, **more))
        return subprocess.run(
            [WEFT, "show", run, *words],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )

    def test_show_tells_all_of_one_candidate(self):
        name = "sg_000000000000"
        wrong = self.show("run", name + "/llm-3")
        self.assertEqual(wrong.returncode, 0, wrong.stderr)
        for words in (
            r"verdict +wrong\n",
            r"why +element \[3, 4\] is 2",
            r"element +y\[3, 4\] is 2, expected 5, error 0\.6\n",
            r"element +y\[3, 5\] is nan, expected 1\.25",
        ):
            self.assertRegex(wrong.stdout, words)
        right = self.show("run", name + "/llm-1").stdout
        for words in (
            r"from +llm, round 1 of llm-0\n",
            r"method +wider loads\n",
            r"time +11 us",
            r"eager +30 us .*2\.73x as long",
            r"built +rows: local_bytes 0 registers 40\n",
        ):
            self.assertRegex(right, words)
        told = json.loads(self.show("run", name + "/llm-3", "--json").stdout)
        self.assertEqual(
            told["mismatches"][1],
            {"output": "y", "index": [3, 5], "expected": "1.25", "got": "nan", "error": "inf"},
        )
        for nothing in (name + "/llm-9", name + "/"):
            done = self.show("run", nothing)
            self.assertEqual(done.returncode, 2)
            self.assertIn("'weft show RUN' lists them", done.stderr)

    def test_no_word_of_a_journal_steers_a_terminal(self):
        steering = "\x1b[2J\x1b]0;title\x07\x9b31m\b"
        with_ids = [
            json.loads(line)
            for line in self.show(
                "steering", "--json", word=lambda t: t + steering
            ).stdout.splitlines()
        ]
        name = with_ids[0]["subgraph"]
        self.assertIn("\x1b", name)
        for words in ([], ["--events"], [name + "/llm-3" + steering], [name + "/llm-1" + steering]):
            done = self.show("steering", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"\\(x|u00)1b\[2J")
            self.assertNotRegex(done.stdout, "[\x00-\x08\x0b-\x1f\x7f-\x9f]")

    def test_what_is_no_run_is_said_to_be_none(self):
        done = subprocess.run(
            [WEFT, "show", self.path("none"), "--html"],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("none", done.stderr)


@unittest.skipUnless(chromium(), "no chromium here: apt-get install chromium")
class ReportPageTest(ReportCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def setUp(self):
        super().setUp()
        self.browser.open("about:blank")
        self.browser.size(1280, 900)
        self.browser.scheme("light")
        self.browser.console.clear()
        self.browser.requests.clear()

    def open(self, page, rows="#subgraphs tbody tr"):
        self.browser.open("file://" + page)
        self.browser.wait(f"document.querySelector('{rows}')")

    def texts(self, selector):
        return self.browser.run(
            f"[...document.querySelectorAll({selector!r})].map((e) => e.textContent)"
        )

    def go(self, *parts):
        self.browser.run(
            "location.hash = " + repr(list(parts)) + ".map(encodeURIComponent).join('/')"
        )

    def quiet(self):
        self.assertEqual(self.browser.console, [])
        asked = [u for u in self.browser.requests if not u.startswith("file:")]
        self.assertEqual(asked, [])

    def test_the_first_screen_has_verdict_speedups_and_cost(self):
        self.open(self.page_of("run"))
        first = self.browser.run("document.getElementById('overview').innerText")
        for words in (
            "Verified",
            "made.py",
            "weft\u2019s rule: verified",
            "KernelBench\u2019s rule: within the tolerance",
            "2.31\u00d7",
            "1.38\u00d7",
            "3 of 3",
            "9 of 12",
            "$0.0036",
        ):
            self.assertIn(words, first)
        self.quiet()

    def test_a_head_sorts_its_column_and_a_word_filters(self):
        self.open(self.page_of("twelve", subgraphs=12))
        name = "#subgraphs tbody tr td:first-child a"
        before = self.texts(name)
        click = "document.querySelector('#subgraphs th button').click()"
        self.browser.run(click)
        self.browser.run(click)
        self.assertEqual(self.texts(name), before[::-1])
        self.browser.run(
            "(() => { const i = document.querySelector('#subgraphs input');"
            "i.value = 'mul 11'; i.dispatchEvent(new Event('input')); })()"
        )
        self.assertEqual(self.texts(name), ["relu+mul 11"])
        self.quiet()

    def test_a_box_of_the_graph_leads_to_its_subgraph(self):
        self.open(self.page_of("run"))
        self.browser.run(
            "document.querySelector('.graph a').dispatchEvent("
            "new MouseEvent('click', {bubbles: true}))"
        )
        self.browser.wait("document.querySelector('#candidates tbody tr')")
        self.assertEqual(self.texts("h1"), ["relu+mul 0"])
        self.assertEqual(len(self.texts("#candidates tbody tr")), 4)
        self.quiet()

    def test_a_candidate_shows_source_changes_evidence_and_prompt(self):
        self.open(self.page_of("run"))
        self.go("sg", "sg_000000000000", "llm-1")
        self.browser.wait("document.querySelector('#source .ln')")
        self.assertIn("// kernel 1", self.texts("#source .code"))
        self.browser.run("document.querySelector('#source button').click()")
        self.browser.wait("document.querySelector('#source .add')")
        self.assertIn("+   return 1;", self.texts("#source .add .code"))
        self.assertIn("\u2212   return 0;", self.texts("#source .del .code"))
        self.go("sg", "sg_000000000000", "llm-3")
        self.browser.wait("document.querySelector('h1').textContent === 'llm-3'")
        self.assertIn("element [3, 4] is 2, not 5", self.texts("dd"))
        self.assertEqual(
            self.texts("#mismatches th"), ["Output", "Index", "Expected", "Got", "Error"]
        )
        self.assertEqual(
            self.texts("#mismatches td"),
            ["y", "[3, 4]", "5", "2", "0.6", "y", "[3, 5]", "1.25", "nan", "inf"],
        )
        self.go("sg", "sg_000000000000")
        self.browser.wait("document.querySelector('#candidates tbody tr')")
        self.assertIn("y[3, 4] is 2, expected 5, and 1 more", self.texts("#candidates td .small"))
        self.go("sg", "sg_000000000000", "llm-1")
        self.browser.wait("document.querySelector('#built td')")
        self.assertEqual(self.texts("#built th"), ["Kernel", "threads", "local bytes", "registers"])
        self.assertEqual(
            self.texts("#built td"),
            ["constructor", "256", "\u2013", "\u2013", "rows", "\u2013", "0", "40"],
        )
        self.assertIn("wider loads", self.texts("dd"))
        self.go("call", "0")
        self.browser.wait("document.querySelectorAll('.source .ln').length === 3")
        said = self.texts(".source .code")
        self.assertIn("You write kernels.", said)
        self.assertIn("Here it is, sg_000000000000", said)
        self.quiet()

    def test_dark_when_the_system_is_and_when_it_is_told_to(self):
        colour = "getComputedStyle(document.body).backgroundColor"
        self.open(self.page_of("run"))
        light = self.browser.run(colour)
        self.browser.scheme("dark")
        self.browser.wait(f"{colour} !== {light!r}")
        self.browser.run("theme.chosen = 'light'; theme.apply()")
        self.assertEqual(self.browser.run(colour), light)
        self.quiet()

    def test_a_telephone_scrolls_no_page_sideways(self):
        self.browser.size(390, 800, mobile=True)
        self.open(self.page_of("run"))
        wide = "document.documentElement.scrollWidth"
        self.assertLessEqual(self.browser.run(wide), 390)
        for parts in (("sg", "sg_000000000000"), ("sg", "sg_000000000000", "llm-1"), ("call", "0")):
            self.go(*parts)
            self.browser.wait("document.querySelector('h1')")
            self.assertLessEqual(self.browser.run(wide), 390, parts)
        self.quiet()

    def test_a_telephone_has_drawings_whose_words_can_be_read(self):
        self.browser.size(390, 800, mobile=True)
        self.open(self.page_of("run"))
        # Of each text in it, as large as it comes out.
        sizes = (
            "[...document.querySelectorAll('.fitted text')].map((t) => "
            "parseFloat(getComputedStyle(t).fontSize) * "
            "t.ownerSVGElement.getBoundingClientRect().width / "
            "t.ownerSVGElement.viewBox.baseVal.width)"
        )
        for parts in (("roofline",), ("sg", "sg_000000000000")):
            self.go(*parts)
            self.browser.wait("document.querySelector('.fitted text')")
            self.browser.wait(f"Math.min(...{sizes}) >= 10")
        self.quiet()

    def test_it_can_be_printed(self):
        self.open(self.page_of("run"))
        self.browser.scheme("dark")
        self.browser.ask("Emulation.setEmulatedMedia", media="print")
        self.browser.run("dispatchEvent(new Event('beforeprint'))")
        for gone in ("nav", "#theme", ".tools"):
            self.assertEqual(
                self.browser.run(f"getComputedStyle(document.querySelector({gone!r})).display"),
                "none",
                gone,
            )
        heads = (
            "[...document.querySelectorAll('#subgraphs th button')]"
            ".every((b) => b.getBoundingClientRect().width > 0)"
        )
        self.assertTrue(self.browser.run(heads))
        self.assertEqual(self.browser.run("document.documentElement.dataset.theme"), "light")
        self.browser.run("dispatchEvent(new Event('afterprint'))")
        paper = base64.b64decode(self.browser.ask("Page.printToPDF")["data"])
        self.assertTrue(paper.startswith(b"%PDF"))
        self.browser.ask("Emulation.setEmulatedMedia", media="")
        self.quiet()

    def test_a_row_s_address_marks_the_row(self):
        page = self.page_of("twelve", subgraphs=12)
        self.open(page + "#row/sg_000000000003")
        here = self.texts("tr.here td:first-child a")
        self.assertEqual(here, ["relu+mul 3"])
        self.quiet()

    def test_nothing_that_a_journal_says_is_executed(self):
        self.open(self.page_of("hostile", word=lambda t: t + HOSTILE))
        pages = self.browser.run(
            "[...document.querySelectorAll('main a')]"
            ".map((a) => a.getAttribute('href')).filter((h) => h)"
        )
        self.assertTrue(all(p.startswith("#") for p in pages), pages)
        name = "sg_000000000000" + HOSTILE
        for parts in (
            ("sg", name),
            ("sg", name, "llm-1" + HOSTILE),
            ("call", "0"),
            ("sg", "nothing" + HOSTILE),
        ):
            self.go(*parts)
            self.browser.wait("document.getElementById('main').textContent")
        self.go("sg", name, "llm-1" + HOSTILE)
        self.browser.wait("document.querySelector('#source .ln')")
        self.assertIn(HOSTILE.split()[0], " ".join(self.texts(".code")))
        self.assertIsNone(self.browser.run("window.hacked"))
        self.assertEqual(
            self.browser.run("document.querySelectorAll('main script, main img').length"), 0
        )
        self.quiet()

    def test_a_run_that_is_not_finished_says_so(self):
        self.open(self.page_of("open", finished=False))
        self.assertIn("Not finished", self.texts("#overview .word")[0])
        self.assertIn("weft resume", " ".join(self.texts("#problems .why")))
        self.quiet()

    def test_two_hundred_subgraphs_are_shown_a_hundred_at_a_time(self):
        self.open(self.page_of("wide", subgraphs=200, candidates=1))
        self.assertEqual(len(self.texts("#subgraphs tbody tr")), 100)
        self.browser.run("document.querySelector('#subgraphs .more button').click()")
        self.assertEqual(len(self.texts("#subgraphs tbody tr")), 200)
        self.quiet()

    def test_large_runs_open_in_less_than_two_seconds(self):
        for name, size in (
            ("200 subgraphs", {"subgraphs": 200}),
            ("5,000 candidates", {"subgraphs": 5, "candidates": 1000}),
        ):
            page = self.page_of(name, **size)
            opened = []
            # A busy machine may need another try: it says so.
            while not opened or (min(opened) >= 2 and len(opened) < 6):
                self.open(page)
                opened.append(
                    self.browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
                    / 1000
                )
            if len(opened) > 1:
                print(f"{name}: opened in {opened} s, tried again", flush=True)
            self.assertLess(min(opened), 2, name)
        self.go("sg", "sg_000000000004")
        self.browser.wait("document.querySelector('#candidates tbody tr')")
        self.assertIn("100 of 1\u202f000 rows", self.texts("#candidates .more")[0])
        self.quiet()


if __name__ == "__main__":
    unittest.main()
