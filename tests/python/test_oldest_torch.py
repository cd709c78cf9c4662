"""The oldest PyTorch that pyproject.toml promises: tests of each way into weft,
run by a Python that has it."""

import os
import subprocess
import unittest

from weft_case import environment, tool

#: torch.compile with played programs and a real search, whose gradients train;
#: weft.optimize, and its modules in files.
TESTS = (
    "test_backend.TakeOver.test_kernels_take_over_after_the_search",
    "test_backend.TakeOver.test_a_size_that_is_marked_dynamic_has_one_graph",
    "test_backend.Failures.test_wrong_kernels_are_never_used",
    "test_backend_as_eager.AsEager.test_weights_are_read_at_every_call",
    "test_backend_as_eager.AsEager.test_state_dict_and_deepcopy",
    "test_backend_as_eager.AsEager.test_torch_save_of_the_module",
    "test_backend_as_eager.AsEager.test_halves",
    "test_backend_as_eager.AsEager.test_gradients_switched_on_and_off",
    "test_backend_as_eager.AsEager.test_autocast",
    "test_backend_as_eager.AsEager.test_views_and_written_inputs",
    "test_backend_as_eager.AsEager.test_random_numbers_are_the_same",
    "test_backend_as_eager.Gradients",
    "test_backend_runs.Runs.test_a_step_of_training_and_another_process_s_finds",
    "test_optimize.Optimized.test_it_is_the_same_module_with_kernels",
    "test_optimize.Optimized.test_gradients_are_the_module_s_own",
    "test_optimize.Optimized.test_copies_and_pickles",
    "test_gradients",
)
SAYS_WHICH = "import torch; print(torch.__version__.partition('+')[0])"


class OldestTorchTest(unittest.TestCase):
    def test_each_way_in(self):
        test_torch = tool("test-torch")
        version = test_torch.oldest()
        python = test_torch.python_of(version)
        if not test_torch.has_torch(python):
            self.skipTest(
                f"no torch {version} here: tools/test-torch --install "
                f"{version} (with pip's builds, 3 GB)"
            )
        asked = subprocess.run(
            [python, "-c", SAYS_WHICH], capture_output=True, text=True, check=False
        )
        self.assertEqual(asked.stdout.strip(), version, asked.stderr)
        done = subprocess.run(
            [python, "-B", "-m", "unittest", "-v", *TESTS],
            check=False,
            cwd=os.path.dirname(os.path.abspath(__file__)),
            timeout=550,
            env=environment(WEFT_PYTHON=python),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:])


if __name__ == "__main__":
    unittest.main()
