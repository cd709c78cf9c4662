"""Data of somebody else that nests without end: no command uses up its stack."""

import os
import subprocess
import unittest

import made_journal
from made_journal import MadeJournal, MadeRun
from weft_case import ROOT, WeftCase, at_run

LEVELS = 400_000


class Raw(bytes):
    """msgpack as it is."""


def nested_run(folder: str, event: int, level: bytes) -> str:
    """A run, one event of which has a field that nests."""
    packed, say = made_journal.packed, MadeJournal.say
    count = 0

    def said(journal, src, dst, kind, body, *more, **named):
        nonlocal count
        count += 1
        if count == event:
            # The value of the last field, 9 bytes, becomes the nested one.
            body = Raw(packed({**body, "more": 0})[:-9] + level * LEVELS + b"\xc0")
        return say(journal, src, dst, kind, body, *more, **named)

    made_journal.packed = lambda value: bytes(value) if isinstance(value, Raw) else packed(value)
    MadeJournal.say = said
    try:
        MadeRun(folder, subgraphs=1, candidates=2)
    finally:
        made_journal.packed, MadeJournal.say = packed, say
    return folder


class Nesting(WeftCase):
    def ended(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """With an exit code of weft's own, none of a crash."""
        return super().ended(*words, codes=range(6))

    def test_commands_that_read_a_run_survive(self) -> None:
        other = self.path("other")
        MadeRun(other, subgraphs=1, candidates=2)
        for level in (b"\x91", b"\x81\xa1a"):
            for event in (1, 2, 12, 20):
                run = nested_run(self.path(f"run-{len(level)}-{event}"), event, level)
                for words in (
                    ["show"],
                    ["show", "--json"],
                    ["show", "--html"],
                    ["show", "--events"],
                    ["replay"],
                    ["replay", "--at", str(event)],
                    ["diff", other],
                    ["export", "csv"],
                    ["resume", "--recorded"],
                    ["explain"],
                ):
                    with self.subTest(level=level, event=event, words=words):
                        self.ended(*at_run(words, run))

    def test_settings_are_refused(self) -> None:
        dots = "a." * 200_000
        for text in (f"{dots}b = 1\n", f"[{dots}b]\nx = 1\n", f"x = {{ {dots}b = 1 }}\n"):
            with self.subTest(text[:20]):
                self.write("weft.toml", text)
                self.assertIn(b"too many dots", self.ended("config").stderr)

    def test_a_graph_is_refused(self) -> None:
        deep = "[" * LEVELS + "]" * LEVELS
        node = '{"name": "x", "kind": "call", "args": [{"a": %s}]}' % deep
        graph = self.write("graph.json", '{"version": 1, "nodes": [%s], "outputs": []}' % node)
        problem = self.write("p.py", "raise RuntimeError")
        done = self.ended("run", problem, "--graph", graph, "--out", self.path("run"))
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"captured graph", done.stderr)

    def test_there_is_one_parser(self) -> None:
        """Others would not look at the nesting first."""
        readers = []
        for part in ("actors", "compiler", "config", "messages", "runtime", "tools"):
            for folder, _, names in os.walk(os.path.join(ROOT, part)):
                for name in names:
                    if not name.endswith((".cpp", ".hpp")):
                        continue
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        text = file.read()
                    if "son::parse(" in text or "son::from_msgpack(" in text:
                        readers.append(name)
        # state_json.hpp reads what it has just written, of fixed types.
        self.assertEqual(sorted(readers), ["parse_json.hpp", "state_json.hpp"])


if __name__ == "__main__":
    unittest.main()
