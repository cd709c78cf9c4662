"""Where TF32's loss enters what is expected: as if the CPU were a GPU."""

import json
import os
import tempfile
import unittest
from unittest import mock

import torch

import captured_cases
from weft.expect import compare, expected, tf32, whole_model
from weft.device.device import HOST
from weft.expect.reference import Reference

PROBLEM = '''
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)

    def forward(self, x):
        return self.norm(self.conv(x))

def get_inputs():
    return [torch.rand(2, 4, 16, 16)]

def get_init_inputs():
    return []
'''


class Expected(unittest.TestCase):
    def setUp(self):
        patched = mock.patch.object(tf32, "is_allowed", lambda device: True)
        patched.start()
        self.addCleanup(patched.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_of_a_subgraph(self):
        x, w = torch.rand(2, 4, 16, 16), torch.randn(8, 4, 3, 3)
        case = ("conv", lambda x, w: torch.relu(
            torch.ops.aten.convolution(x, w, None, [1, 1], [0, 0], [1, 1],
                                       False, [0, 0], 1)), (x, w))
        graph, = captured_cases.graphs_of([case])
        maker = expected.CaseMaker(Reference(json.loads(json.dumps(graph))),
                                   HOST)
        one, = maker.expect([x.reshape(-1), w.reshape(-1)])
        with tf32.Lossy(tf32.cut):
            lossy = case[1](x, w)
        self.assertFalse(compare.compare(lossy, one).reason)
        self.assertLess(one.rms_tolerance, one.tolerance)

    def test_of_a_model_and_what_it_keeps(self):
        path = os.path.join(self.folder, "problem.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROBLEM)
        whole = whole_model.WholeModel(path, 1)
        strict = whole.case("given", HOST.generator(1))
        whole._convolves = True
        case = whole.case("given", HOST.generator(1))
        for before, after in zip(strict.expectations, case.expectations):
            self.assertTrue(torch.equal(before.framework, after.framework))
        self.assertGreater(case.outputs[0].tolerance,
                           strict.outputs[0].tolerance)
        means = [one for one in case.state_after if "running_mean" in one.name]
        self.assertLess(means[0].rms_tolerance, 1.0)


if __name__ == "__main__":
    unittest.main()
