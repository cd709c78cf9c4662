"""Arguments that lie in the same memory in call after call: a second CUDA graph reads them
there. The graphs are played, as in test_cuda_graph."""

import unittest
from unittest import mock

import torch
from played_graph import Played, PlayedCase, weighted

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
        made = self.made(x, bytes_max=149)
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
        made = copies.room()
        copies.give(made)
        for got, one in zip(made, tensors, strict=True):
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
        few, many = resting_arguments.RESTS_AFTER + 1, 2 * cuda_graph.CALLS_PAY
        for calls, is_replayed in ((few, False), (many, True)):
            made = self.summing()
            kept = [torch.zeros(3) for _ in range(2 * cuda_graph.RECORDINGS_MAX)]
            for cache in kept:
                for _ in range(calls + cuda_graph.MISSES_MAX):
                    made([cache, torch.ones(3)])
            for cache in kept:
                self.assertEqual(cache.tolist(), [calls + cuda_graph.MISSES_MAX] * 3)
            self.assertEqual(made._resting is not None, is_replayed)

    def test_no_memory_for_a_replay_is_no_error_of_the_call(self):
        x = torch.rand(4, 3)
        made = self.made(x)
        error = torch.OutOfMemoryError("no memory")
        with mock.patch.object(made._recording, "replay", side_effect=error):
            self.assert_computes(made, self.weight, x)
        for _ in range(3):
            self.assert_computes(made, self.weight, x)
        self.assertEqual(made.nbytes, 0)

    def test_a_recording_that_fails_again_is_no_error_of_the_call(self):
        x, moved = torch.rand(4, 3), torch.rand(3)
        made = self.made(x)
        with mock.patch.object(made, "_record", side_effect=RuntimeError("no memory")) as record:
            record.is_within_another.return_value = False
            for _ in range(4):
                self.assert_computes(made, moved, x)
        self.assertEqual(made.nbytes, 0)

    def test_no_memory_for_the_second_graph_is_tried_twice(self):
        x = torch.rand(4, 3)
        for failures, is_there in ((1, True), (2, False)):
            made = self.made(x)
            made.read_in_place()
            made_before, made._record = made._record, mock.Mock()
            made._record.is_within_another.return_value = False
            made._record.side_effect = [RuntimeError("no memory")] * failures + [
                made_before(self.function, [self.weight, x], [])
            ]
            for _ in range(4 * resting_arguments.RESTS_AFTER):
                self.assert_computes(made, self.weight, x)
            self.assertEqual(made._resting is not None, is_there)

    def test_calls_that_are_not_replayed_may_be_another_s(self):
        x = torch.rand(4, 3)
        made, calls = self.made(x), []
        made.otherwise = lambda given: calls.append(given) or weighted(given)
        self.assert_computes(made, torch.rand(3), x)
        self.assertEqual(len(calls), 1)


if __name__ == "__main__":
    unittest.main()
