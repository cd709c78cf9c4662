"""A search's reasons quote candidates: explain() removes control characters."""

import unittest

import torch
import weft
from backend_case import BackendCase, Net


class HostileSearches(BackendCase):
    def test_no_word_of_a_search_steers_a_terminal(self):
        for how in ("hostile words", "nothing, with hostile words"):
            with self.subTest(how):
                self.set_environment(FAKE_WEFT=how)
                torch._dynamo.reset()
                mine = self.compiled(Net().eval())
                with torch.no_grad():
                    for _ in range(2):
                        mine(torch.ones(4 + len(how), 12))
                text = str(weft.explain())
                self.assertIn("played" if how[0] == "h" else "no generated kernel", text)
                for steering in ("\x1b", "\u202e", "\nready"):
                    self.assertNotIn(steering, text)


if __name__ == "__main__":
    unittest.main()
