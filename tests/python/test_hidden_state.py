"""Models that remember something outside of tensors, or write a parameter: a
graph of one call does not stand for all calls."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from capture_case import CaptureTest, simple

import torch


class RefusedTest(CaptureTest):
    def refuse_for(self, name, body, init, line, **more):
        self.refuse(simple(body, init=init, **more), "unsupported", says=f" {name}", line=line)

    def test_a_flag_that_the_first_call_sets(self):
        self.refuse_for(
            "done",
            "if not self.done:\n    self.done = True\nreturn x * 2",
            "self.done = False",
            "not self.done",
        )

    def test_a_parameter_set_by_the_first_call(self):
        # What is captured comes after that call, and had none of it.
        for write in (
            "self.loc.data.copy_(-x.mean(0))",
            "self.loc.copy_(-x.mean(0))",
            "self.loc.data[0] = x[0, 0]",
        ):
            self.refuse_for(
                "parameter loc",
                f"if not self.done:\n    {write}\n    self.done = True\nreturn x + self.loc",
                "self.loc = nn.Parameter(torch.zeros(6))\nself.done = False",
                write,
            )

    def test_a_counter_that_matters_later(self):
        self.refuse_for(
            "step",
            "self.step += 1\nreturn x * (1.0 if self.step > 100000 else 0.1)",
            "self.step = 0",
            "if self.step",
        )

    def test_a_counter_of_a_class_or_of_the_file(self):
        self.refuse_for(
            "Model.calls",
            "Model.calls += 1\nreturn x * (1 if Model.calls < 1000 else 2)",
            "Model.calls = 0",
            "if Model.calls",
        )
        self.refuse(
            "CALLS = [0]\n" + simple("CALLS[0] += 1\nreturn x * 2"),
            "unsupported",
            says="CALLS",
            line="CALLS[0] +=",
        )

    def test_what_is_read_by_its_name(self):
        self.refuse_for(
            "step",
            "self.step += 1\nreturn x * (1 if getattr(self, 'step') < 99 else 2)",
            "self.step = 0",
            "getattr",
        )

    def test_what_was_not_there_before(self):
        self.refuse_for(
            "n", "if not hasattr(self, 'n'):\n    self.n = 3\nreturn x * self.n", "pass", "hasattr"
        )

    def test_a_table_that_the_first_call_makes(self):
        self.refuse_for(
            "table",
            "if self.table is None:\n    self.table = torch.ones(6)\nreturn x * self.table",
            "self.table = None",
            "self.table is None",
        )

    def test_tensors_in_a_list(self):
        self.refuse_for(
            "past",
            "y = x + self.past[0]\nself.past = [x * 2]\nreturn y",
            "self.past = [torch.zeros(4, 6)]",
            "self.past[0]",
        )

    def test_what_an_object_of_the_file_holds(self):
        text = simple("self.past.calls += 1\nreturn x * 2", init="self.past = Past()")
        self.refuse(
            text.replace("class Model", "class Past:\n    calls = 0\n\nclass Model"),
            "unsupported",
            says=" past",
            line="self.past.calls",
        )

    def test_what_a_part_of_the_framework_goes_by(self):
        self.refuse_for(
            "bn.momentum",
            "self.bn.momentum *= 0.9\nreturn self.bn(x)",
            "self.bn = nn.BatchNorm1d(6)",
            None,
        )


class CapturedTest(CaptureTest):
    def test_a_counter_that_nothing_looks_at(self):
        self.capture(simple("self.step += 1\nreturn x * 2", init="self.step = 0"))

    def test_what_each_call_binds_before_it_reads(self):
        self.capture(
            simple(
                "self.n = x.shape[0]\nself.rows = [x * 2]\nreturn self.rows[0] * self.n",
                init="self.n = None",
            )
        )

    def test_what_is_as_it_was_in_the_end(self):
        self.capture(
            simple(
                "was = self.training\nself.train(False)\n"
                "y = F.dropout(x, 0.5, self.training)\n"
                "self.train(was)\nreturn y * 2"
            )
        )

    def test_parts_that_keep_their_own(self):
        for part in (
            "nn.LSTM(6, 6)",
            "nn.MultiheadAttention(6, 2)",
            "nn.utils.weight_norm(nn.Linear(6, 6))",
            "nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6))",
            "nn.BatchNorm1d(6)",
        ):
            call = "self.part(x, x, x)" if "Multi" in part else "self.part(x)"
            self.capture(simple(f"return {call}", init=f"self.part = {part}"))

    def test_the_classes_are_left_as_they_were(self):
        before = [dict(vars(kind)) for kind in (torch.nn.Linear, torch.nn.Module)]
        self.capture(simple("return self.part(x)", init="self.part = nn.Linear(6, 6)"))
        self.assertEqual(before, [dict(vars(kind)) for kind in (torch.nn.Linear, torch.nn.Module)])


if __name__ == "__main__":
    unittest.main()
