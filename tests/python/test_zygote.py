"""The zygote's answers to orders that come when its child is gone."""

import json
import select
import socket
import unittest

from weft.candidate.zygote import Zygote


class OrdersWithoutAChild(unittest.TestCase):
    def zygote(self) -> Zygote:
        """One whose child ended while it stood still, which was said."""
        ours, self.theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(self.theirs.close)
        made = Zygote(ours, is_private=False, device="cpu")
        made.is_frozen = True
        return made

    def test_a_call_after_the_end_changes_nothing(self) -> None:
        zygote = self.zygote()
        for order in ({"do": "call", "call": 2}, {"do": "rest"}):
            zygote.obey(json.dumps(order).encode())
        readable, _, _ = select.select([self.theirs], [], [], 0)
        self.assertEqual(readable, [])  # it said the end before


if __name__ == "__main__":
    unittest.main()
