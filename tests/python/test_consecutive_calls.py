"""Models that keep one tensor under two names: what is captured has one for
each, which only a second call may tell."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from capture_case import CaptureTest, simple

BOTH = "self.a = torch.ones(4, 6)\nself.b = torch.zeros(4, 6)"


class CallsInARowTest(CaptureTest):
    def refuse_for(self, body, init=BOTH, says="self.name.copy_(x)"):
        self.refuse(simple(body, init=init), "unsupported", says=says)

    def test_one_tensor_under_two_names_that_is_written(self):
        self.refuse_for(
            "self.a.add_(1)\nr = self.b + x\ny = x * 2\nself.a = y\nself.b = y\nreturn r"
        )

    def test_a_view_of_it(self):
        self.refuse_for(
            "self.a.data.add_(1)\nr = self.b + x\ny = x * 2\n"
            "self.a = y\nself.b = y.view(4, 6)\nreturn r"
        )

    def test_one_tensor_from_the_beginning(self):
        self.refuse_for(
            "self.a.add_(1)\nreturn self.b + x", "self.a = torch.ones(4, 6)\nself.b = self.a"
        )

    def test_one_buffer_under_two_names(self):
        self.refuse_for(
            "self.a.add_(1)\nreturn self.b + x",
            "self.register_buffer('a', torch.ones(4, 6))\nself.register_buffer('b', self.a[:])",
            says="two tensors share",
        )

    def test_a_parameter_under_another_name(self):
        self.refuse_for(
            "self.a.add_(1)\nr = self.w + x\nself.a = self.w.data\nreturn r",
            BOTH + "\nself.w = nn.Parameter(torch.zeros(4, 6))",
        )

    def test_a_part_of_an_argument(self):
        self.refuse_for("y = x + self.a\nself.a = x.view(4, 6)\nreturn y", says="self.a.copy_(x)")

    def test_one_tensor_under_two_names_that_is_only_read(self):
        self.capture(
            simple(
                "h = torch.tanh(x + self.a)\nself.a = h\nself.b = h\nreturn h + self.b", init=BOTH
            )
        )

    def test_names_that_change_places(self):
        self.capture(simple("self.a, self.b = self.b, self.a\nreturn x + self.a", init=BOTH))

    def test_an_argument_that_is_copied(self):
        self.capture(simple("y = x + self.a\nself.a = x.clone()\nreturn y", init=BOTH))


if __name__ == "__main__":
    unittest.main()
