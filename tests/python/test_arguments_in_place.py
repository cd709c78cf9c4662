"""Arguments that lie in the same memory in call after call: a second CUDA graph reads them
there. The graphs are played, as in test_cuda_graph."""

import unittest

import torch
from played_graph import Played, PlayedCase

from weft.backend.implementations import cuda_graph, resting_arguments
from weft.backend.implementations.cuda_graph import Replayed


class InPlace(PlayedCase):
    def test_an_argument_in_the_same_place_is_not_copied(self):
        x, other = torch.rand(4, 3), torch.rand(4, 3)
        made = self.made(x)
        made.read_in_place()
        for _ in range(resting_arguments.RESTS_AFTER + 2):
            x.add_(1)
            self.assert_computes(made, self.weight, x)
        self.assertEqual(made._resting.moving, [])
        self.assertEqual(made._resting.recording.replays, 3)
        copied = made._recording.replays
        self.assert_computes(made, self.weight, other)
        self.assertEqual(made._recording.replays, copied + 1)
        self.assert_computes(made, self.weight, x)
        self.assertEqual(made._resting.recording.replays, 4)
        self.assertEqual(made.nbytes, 200)

    def test_one_of_two_arguments_stays_in_its_place(self):
        def sums(arguments):
            return [arguments[0] + 2 * arguments[1]]

        cache, made = torch.rand(3), Replayed(sums, [torch.rand(3)] * 2, set(), [], 1000, Played)
        made.read_in_place()
        kept = []
        for _ in range(2 * resting_arguments.RESTS_AFTER):
            kept.append(torch.rand(3))  # none takes the place of another
            (got,) = made([kept[-1], cache])
            torch.testing.assert_close(got, kept[-1] + 2 * cache)
        self.assertEqual(made._resting.moving, [0])

    def test_arguments_that_move_again_are_copied(self):
        x, kept = torch.rand(4, 3), []
        made = self.made(x)
        made.read_in_place()
        for _ in range(resting_arguments.RESTS_AFTER):
            made([self.weight, x])
        self.assertIsNotNone(made._resting)
        for _ in range(cuda_graph.MISSES_MAX + 1):
            kept.append(torch.rand(4, 3))
            self.assert_computes(made, self.weight, kept[-1])
        self.assertIsNone(made._resting)
        for _ in range(2 * resting_arguments.RESTS_AFTER):
            self.assert_computes(made, self.weight, x)
        self.assertIsNone(made._resting)

    def test_what_lies_in_place_needs_room(self):
        x = torch.rand(4, 3)
        made = self.made(x, bytes_max=150)
        made.read_in_place()
        for _ in range(2 * resting_arguments.RESTS_AFTER):
            self.assert_computes(made, self.weight, x)
        self.assertIsNone(made._resting)
        self.assertEqual(made.nbytes, 100)

    def test_a_trial_s_arguments_say_nothing_of_the_program_s(self):
        x = torch.rand(4, 3)
        made = self.made(x)
        for _ in range(2 * resting_arguments.RESTS_AFTER):
            self.assert_computes(made, self.weight, x)
        self.assertIsNone(made._resting)

    def test_moved_parameters_end_what_lies_in_place(self):
        x = torch.rand(4, 3)
        made = self.made(x)
        made.read_in_place()
        for _ in range(resting_arguments.RESTS_AFTER):
            made([self.weight, x])
        moved = torch.rand(3)
        for _ in range(2):
            self.assert_computes(made, moved, x)
        self.assertIsNone(made._resting)
        for _ in range(resting_arguments.RESTS_AFTER):
            self.assert_computes(made, moved, x)
        self.assertIsNotNone(made._resting)

    def test_copies_are_of_several_types(self):
        tensors = [torch.rand(3), torch.arange(4), torch.rand(2, 2), torch.tensor([True])]
        copies = cuda_graph._Copies(tensors)
        for got, one in zip(copies.given(), tensors, strict=True):
            self.assertTrue(torch.equal(got, one))
            self.assertNotEqual(got.data_ptr(), one.data_ptr())
        given = [torch.zeros_like(one) for one in tensors]
        copies.take(given)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(tensors, given)))

    def summing(self):
        def summed(arguments):
            cache, x = arguments
            cache.add_(x)
            return [cache * 2]

        made = Replayed(
            summed,
            [torch.zeros(3), torch.ones(3)],
            set(),
            [],
            1000,
            Played,
            written=frozenset({0}),
        )
        made.read_in_place()
        return made

    def test_what_is_written_is_written_once_in_each_call(self):
        made, cache, kept = self.summing(), torch.zeros(3), []
        for number in range(1, 3 * resting_arguments.RESTS_AFTER):
            kept.append(torch.ones(3))
            (got,) = made([cache, kept[-1]])
            self.assertEqual((cache.tolist(), got.tolist()), ([number] * 3, [2 * number] * 3))
        self.assertEqual(made._resting.moving, [1])
        self.assertEqual(made._resting.recording.replays, 2 * resting_arguments.RESTS_AFTER)
        self.assertEqual((made.nbytes, made.kept()), (100, 150))

    def test_what_is_written_elsewhere_is_the_function_s(self):
        made, kept = self.summing(), []
        for _ in range(2 * resting_arguments.RESTS_AFTER):
            kept.append(torch.zeros(3))
            made([kept[-1], torch.ones(3)])
        self.assertIsNone(made._resting)
        self.assertEqual((made.nbytes, made.kept()), (0, 0))
        self.assertTrue(all(one.tolist() == [1] * 3 for one in kept))

    def test_the_next_memory_that_is_written_is_recorded_too(self):
        made, kept = self.summing(), [torch.zeros(3) for _ in range(cuda_graph.RECORDINGS_MAX + 2)]
        calls = 2 * resting_arguments.RESTS_AFTER + cuda_graph.MISSES_MAX
        for cache in kept:
            for _ in range(calls):
                made([cache, torch.ones(3)])
        self.assertTrue(all(one.tolist() == [calls] * 3 for one in kept))
        self.assertEqual(made._count, cuda_graph.RECORDINGS_MAX)


if __name__ == "__main__":
    unittest.main()
