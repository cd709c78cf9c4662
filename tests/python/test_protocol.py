"""The records in an oracle's replies: what is written of messages/oracle_replies.toml is
current, and both sides of the protocol have the fields that it defines."""

import dataclasses
import os
import re
import subprocess
import sys
import unittest

from weft.judge.kernelbench_tolerance import NearEager
from weft.judge.verdict import Verdict
from weft.oracle import replies

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def fields_of(record: str) -> set[str]:
    kind = getattr(replies, record)
    return set(kind.__required_keys__) | set(kind.__optional_keys__)


def text_of(*names: str) -> str:
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


def function_of(text: str, name: str) -> str:
    """The body of that function in C++."""
    found = re.search(
        rf"^\S.* {name}\(const json& fields\) {{\n(.*?)^}}", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None, name
    return found[1]


class Written(unittest.TestCase):
    @unittest.skipIf(sys.version_info < (3, 11), "no tomllib")
    def test_what_is_generated_is_current(self) -> None:
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "tools", "protocol"), "--check"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class PythonSide(unittest.TestCase):
    def test_a_verdict_has_the_fields(self) -> None:
        own = {field.name for field in dataclasses.fields(Verdict)}
        self.assertEqual(own, fields_of("VerdictReply"))

    def test_the_second_rules_has_too(self) -> None:
        own = {field.name for field in dataclasses.fields(NearEager)}
        self.assertEqual(own, fields_of("KernelBench"))


class OtherSide(unittest.TestCase):
    def setUp(self) -> None:
        self.text = text_of("runtime", "ports", "oracle_answers.cpp")

    def reads(self, function: str, variable: str) -> set[str]:
        body = function_of(self.text, function)
        return set(re.findall(rf'\b{variable}\.value\(\s*"(\w+)"', body)) | set(
            re.findall(rf'\btext_from\({variable}, "(\w+)"', body)
        )

    def test_it_reads_no_field_that_no_reply_has(self) -> None:
        for function, variable, record in (
            ("verdict_from", "fields", "VerdictReply"),
            ("kernelbench_from", "fields", "KernelBench"),
            ("mismatches_from", "entry", "Mismatch"),
            ("timing_from", "fields", "TimingReply"),
            ("timing_from", "row", "BackToBack"),
            ("timing_from", "gpu", "DeviceTiming"),
            ("times_from", "fields", "Times"),
            ("speedup_from", "fields", "Speedup"),
        ):
            with self.subTest(function=function, variable=variable):
                read = self.reads(function, variable)
                self.assertTrue(read)
                self.assertEqual(read - fields_of(record), set())

    def test_its_records_have_the_fields(self) -> None:
        text = text_of("messages", "effects.hpp")
        for struct, record in (
            ("Times", "Times"),
            ("Speedup", "Speedup"),
            ("Mismatch", "Mismatch"),
            ("KernelBenchVerdict", "KernelBench"),
        ):
            found = re.search(
                rf"^struct {struct} {{.*?WEFT_FIELDS\((.*?)\)", text, re.MULTILINE | re.DOTALL
            )
            assert found is not None, struct
            with self.subTest(struct):
                self.assertEqual(set(re.findall(r"\w+", found[1])), fields_of(record))


if __name__ == "__main__":
    unittest.main()
