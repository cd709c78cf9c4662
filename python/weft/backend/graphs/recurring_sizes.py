"""Which sizes are worth a search: those that come again.

A key-value cache that grows by one position per call never has the same length
twice. Without this rule the first lengths would use up the option shapes_max.
"""

import collections
from collections.abc import Hashable

#: A size is worth a search at this call with it.
CALLS_MIN = 2
#: Sizes that are remembered, the most recently called.
REMEMBERED_MAX = 256


class RecurringSizes:
    """Counts calls per size. Not thread-safe: the caller holds a lock."""

    def __init__(self) -> None:
        self._calls: collections.OrderedDict[Hashable, int] = collections.OrderedDict()

    def recurs(self, key: Hashable) -> bool:
        """Counts a call with this size; True if it was called often enough."""
        count = self._calls.pop(key, 0) + 1
        self._calls[key] = count
        if len(self._calls) > REMEMBERED_MAX:
            self._calls.popitem(last=False)
        return count >= CALLS_MIN
