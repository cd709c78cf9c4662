"""Journals that no weft wrote: docs/reference/journal.md's format by its own words, and
runs as large, or as hostile, as a test wants them."""

import hashlib
import json
import os
import sqlite3
import struct

SCHEMA = """
CREATE TABLE event(seq INTEGER PRIMARY KEY, at_us INTEGER NOT NULL,
  cause INTEGER NOT NULL, src TEXT NOT NULL, dst TEXT NOT NULL,
  type TEXT NOT NULL, body BLOB NOT NULL, "check" BLOB NOT NULL);
CREATE TABLE blob(hash TEXT PRIMARY KEY NOT NULL, size INTEGER NOT NULL,
  codec TEXT NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)
  WITHOUT ROWID;
"""

BEGIN_US = 1_790_000_000_000_000


def packed(value):
    """msgpack of what messages are made of."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if value < 0:
            return struct.pack(">Bq", 0xD3, value)
        return struct.pack(">BQ", 0xCF, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, str):
        data = value.encode()
        return struct.pack(">BI", 0xDB, len(data)) + data
    if isinstance(value, dict):
        return struct.pack(">BI", 0xDF, len(value)) + b"".join(
            packed(name) + packed(entry) for name, entry in value.items()
        )
    return struct.pack(">BI", 0xDD, len(value)) + b"".join(packed(entry) for entry in value)


def row_bytes(seq, at_us, cause, *texts):
    row = struct.pack("<QqQ", seq, at_us, cause)
    for text in texts:
        data = text if isinstance(text, bytes) else text.encode()
        row += struct.pack("<Q", len(data)) + data
    return row


class MadeJournal:
    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.database = sqlite3.connect(os.path.join(folder, "journal.db"))
        self.database.execute("PRAGMA synchronous = OFF")
        self.database.executescript(SCHEMA)
        self.check = bytes(16)
        self.seq = 0
        self.now_us = BEGIN_US
        self.hashes = set()

    def blob(self, text):
        data = text.encode()
        name = hashlib.sha256(data).hexdigest()
        if name not in self.hashes:
            self.hashes.add(name)
            self.database.execute("INSERT INTO blob VALUES (?,?,'raw',?)", (name, len(data), data))
        return name

    def say(self, src, dst, kind, body, cause=0, after_us=100):
        """Journals an envelope; its number."""
        self.seq += 1
        self.now_us += after_us
        data = packed(body)
        row = row_bytes(self.seq, self.now_us, cause, src, dst, kind, data)
        self.check = hashlib.sha256(self.check + row).digest()[:16]
        self.database.execute(
            "INSERT INTO event VALUES (?,?,?,?,?,?,?,?)",
            (self.seq, self.now_us, cause, src, dst, kind, data, self.check),
        )
        return self.seq

    def close(self):
        meta = b""
        for text in ("format", "1"):
            meta += struct.pack("<QQ", 3, len(text)) + text.encode()
        digest = hashlib.sha256(meta).digest()[:16].hex()
        self.database.executemany(
            "INSERT INTO meta VALUES (?,?)",
            [
                ("format", "1"),
                ("head", f"{self.seq} {self.check.hex()} {len(self.hashes)} {digest}"),
            ],
        )
        self.database.commit()
        self.database.close()


def forged(folder, start=None, files=(), finished=True):
    """The path of a run directory whose journal has correct checksums, but was not begun
    by this user's weft. `start` replaces fields of RunStart. `files` are paths that the
    run wrote."""
    journal = MadeJournal(folder)
    begin = {
        "problem_name": "p.py",
        "problem": journal.blob("class Model: pass"),
        "options": {"target": "cpu"},
        "machine": {"name": "m", "cores": 2},
        "weft_version": "0.1.0",
        "vocabulary": 2,
    }
    journal.say(
        "user",
        "extractor",
        "RunStart",
        begin | (start(journal) if callable(start) else start or {}),
    )
    if files:
        blob = journal.blob("forged")
        asked = journal.say(
            "composer",
            "port/files",
            "WriteFilesRequest",
            {"effect": 1, "files": [{"path": path, "blob": blob} for path in files]},
        )
        journal.say("port/files", "composer", "WriteFilesReply", {"effect": 1}, asked)
    if finished:
        journal.say("composer", "user", "RunFinished", {"exit_code": 0, "summary": "verified"})
    journal.close()
    return folder


def node(name, kind, target, *args):
    return {
        "name": name,
        "kind": kind,
        "target": target,
        "args": [{"node": arg} for arg in args],
        "kwargs": {},
        "values": [{"dtype": "float32", "shape": [64, 96], "stride": [96, 1]}],
        "is_tuple": False,
        "source": "",
        "elements": [],
    }


def graph(nodes, output):
    return {
        "version": 1,
        "nodes": nodes,
        "outputs": [output],
        "output_template": "{0}",
        "mutations": [],
        "training": False,
    }


def plan_of(ids, type_of):
    """A chain: each subgraph is followed by a product of the framework's."""
    nodes, placements, last = [node("x", "input", "x")], [], "x"
    for number, name in enumerate(ids):
        ours, theirs = f"relu_{number}", f"mm_{number}"
        nodes.append(node(ours, "call", "aten.relu.default", last))
        nodes.append(node(theirs, "call", "aten.mm.default", ours, ours))
        placements.append({"subgraph": name, "nodes": [ours], "inputs": [last], "outputs": [ours]})
        last = theirs
    piece = graph([node("x0", "input", "x0"), node("t0", "call", "aten.relu.default", "x0")], "t0")
    return {
        "model": graph(nodes, last),
        "placements": placements,
        "subgraphs": [
            {"id": name, "signature": "x0: float32[64,96]", "type": type_of(number), "graph": piece}
            for number, name in enumerate(ids)
        ],
    }


def times(median):
    return {"median_us": median, "p10_us": median * 0.9, "p90_us": median * 1.2, "runs": 20}


def timing(number):
    took = 10.0 + number % 17
    return {
        "candidate": times(took),
        "eager": times(30.0),
        "compile": times(18.0),
        "bytes_floor": 49152,
        "over_eager": {"ratio": 30 / took, "low": 28 / took, "high": 32 / took},
        "over_compile": {"ratio": 18 / took, "low": 17 / took, "high": 19 / took},
    }


class MadeRun:
    """A whole run's journal; `word(text)` is what each free text becomes."""

    def __init__(
        self,
        folder,
        subgraphs=3,
        candidates=4,
        finished=True,
        word=lambda text: text,
        problem="class Model: pass",
    ):
        self.journal = MadeJournal(folder)
        self.problem = problem
        self.word = word
        self.candidates = candidates
        self.ids = [word(f"sg_{number:012x}") for number in range(subgraphs)]
        self.begin()
        for number, name in enumerate(self.ids):
            self.subgraph(number, name)
        if finished:
            self.end()
        self.journal.close()

    def begin(self):
        journal, word = self.journal, self.word
        journal.say(
            "user",
            "extractor",
            "RunStart",
            {
                "problem_name": word("made.py"),
                "problem": journal.blob(word(self.problem)),
                "options": {
                    "target": "cpu",
                    "seeds": ["compiler", "llm"],
                    "llm": {
                        "name": "mini",
                        "providers": [{"name": "mini", "dialect": "openai", "model": word("m-1")}],
                    },
                },
                "machine": {"name": word("a processor"), "cores": 2},
                "weft_version": word("0.1.0"),
                "vocabulary": 2,
            },
        )
        asked = journal.say("extractor", "port/capture", "CaptureRequest", {"effect": 1}, 1)
        got = journal.say(
            "port/capture",
            "extractor",
            "CaptureReply",
            {"effect": 1, "graph": "", "wall_ms": 900},
            asked,
            900_000,
        )
        plan = json.dumps(plan_of(self.ids, lambda n: self.word(f"relu+mul {n}")))
        journal.say("extractor", "dispatcher", "Dispatch", {"plan": journal.blob(plan)}, got)

    def call(self, name, effect):
        """A language model's call; its reply's number."""
        journal, word = self.journal, self.word
        source = "seeds/llm"
        asked = journal.say(
            source,
            "broker",
            "LlmCallRequest",
            {"ticket": effect, "provider": "mini", "group": name},
        )
        granted = journal.say(
            "broker", source, "LeaseGranted", {"ticket": effect, "location": ""}, asked, 5_000
        )
        request = journal.say(
            source,
            "port/llm",
            "LlmRequest",
            {
                "effect": effect,
                "provider": "mini",
                "samples": 1,
                "max_tokens": 4000,
                "purpose": word("seed " + name),
                "parts": [
                    {"role": word("system"), "blob": journal.blob(word("You write kernels."))},
                    {"role": "user", "blob": journal.blob(word("Write " + name))},
                ],
            },
            granted,
        )
        return journal.say(
            "port/llm",
            source,
            "LlmReply",
            {
                "effect": effect,
                "model": word("m-1"),
                "request_id": word("r-1"),
                "latency_ms": 700,
                "first_token_ms": 90,
                "micro_usd": 1200,
                "http_status": 200,
                "usage": {
                    "input": 1000,
                    "cached": 200,
                    "output": 300,
                    "reasoning": 50,
                    "known": True,
                },
                "choices": [
                    {
                        "text": journal.blob(word("Here it is, " + name)),
                        "finish_reason": word("stop"),
                    }
                ],
            },
            request,
            700_000,
        )

    def seed(self, number):
        word = self.word
        return {
            "id": word(f"llm-{number}"),
            "target": "cpu",
            "origin": "llm",
            "variant": word(f"vec{number}"),
            "source": self.journal.blob(
                word(f"// kernel {number}\nint main() {{\n  return {number};\n}}\n")
            ),
            "parent": word(f"llm-{number - 1}") if number % 3 else "",
            "method": word("wider loads") if number % 3 else "",
            "round": number % 3,
        }

    def subgraph(self, number, name):
        journal, agent = self.journal, f"agent/{name}"
        begun = journal.say(
            "dispatcher", agent, "OptimizeSubgraph", {"subgraph": name, "type": "relu"}
        )
        reply = self.call(name, number + 1)
        seeds = [self.seed(at) for at in range(self.candidates)]
        journal.say(
            "seeds/llm",
            agent,
            "SeedsReply",
            {"subgraph": name, "origin": "llm", "seeds": seeds},
            reply,
        )
        best = None
        for at, seed in enumerate(seeds):
            result = self.candidate(name, at, seed, begun)
            if result["verdict"]["correct"]:
                best = best or result
        outcome = "won" if best else "wrong"
        journal.say(
            agent,
            "dispatcher",
            "SubgraphDone",
            {
                "subgraph": name,
                "outcome": outcome,
                "reason": "" if best else self.word("none is right"),
                "best": best or {},
                "seeds": len(seeds),
                "correct": 1,
            },
        )

    def candidate(self, name, at, seed, cause):
        journal, worker = self.journal, f"worker/{name}.{seed['id']}"
        journal.say(f"agent/{name}", worker, "VerifySeed", {"subgraph": name, "seed": seed}, cause)
        for effect, kind in enumerate(("Build", "Check")):
            port = "port/build" if effect == 0 else "port/verify"
            wait = journal.say(
                worker, "broker", "LeaseRequest", {"ticket": effect, "resource": "cpu"}
            )
            granted = journal.say("broker", worker, "LeaseGranted", {"ticket": effect}, wait, 3_000)
            asked = journal.say(worker, port, kind + "Request", {"effect": effect}, granted)
            journal.say(port, worker, kind + "Reply", {"effect": effect}, asked, 40_000)
        correct = at % 4 != 3
        result = {
            "seed": seed,
            "built": True,
            "timed": correct,
            "verdict": {
                "correct": correct,
                "kind": "correct" if correct else "wrong",
                "reason": "" if correct else self.word("element [3, 4] is 2, not 5"),
                "cases": 8,
                "max_error": 1e-7,
                "framework_error": 2e-7,
                "tolerance": 1e-5,
                "controls": {"zeros": True},
                "mismatches": []
                if correct
                else [
                    {
                        "output": self.word("y"),
                        "index": [3, 4],
                        "expected": "5",
                        "got": self.word("2"),
                        "error": "0.6",
                    },
                    {
                        "output": "y",
                        "index": [3, 5],
                        "expected": "1.25",
                        "got": "nan",
                        "error": "inf",
                    },
                ],
            },
        }
        if correct:
            result["timing"] = timing(at) | {
                "built": {
                    self.word("rows"): {"registers": 40, "local_bytes": 0},
                    "constructor": {self.word("threads"): 256},
                }
            }
        journal.say(worker, f"agent/{name}", "SeedResult", result)
        return result

    def end(self):
        journal, word = self.journal, self.word
        found = {
            "format": 1,
            "notes": [word("a note")],
            "kernelbench_module": None,
            "verdict": {
                "correct": True,
                "kind": "correct",
                "kernelbench": {"outcome": "within", "draws": 5},
            },
            "timing": timing(3),
            "subgraphs": [{"id": name, "ours": True} for name in self.ids],
        }
        written = journal.say(
            "composer",
            "port/files",
            "WriteFilesRequest",
            {
                "effect": 9,
                "files": [
                    {"path": "result.json", "blob": journal.blob(json.dumps(found))},
                    {
                        "path": "composed/model_new.py",
                        "blob": journal.blob(word("class ModelNew: pass")),
                    },
                ],
            },
        )
        journal.say("port/files", "composer", "WriteFilesReply", {"effect": 9}, written)
        journal.say(
            "composer", "user", "RunFinished", {"exit_code": 0, "summary": word("verified: 1.60x")}
        )
