"""Whether what a problem raised is the want of a network, which a box has not:
a model by the name of a hub, say, that is not in the hub's cache here.
"""

from __future__ import annotations

import errno

#: Of the message that says so, by which a bench knows it.
WANTED = "needs the network"
#: Classes by name, of modules that begin so: none of them is imported here.
_CLASSES = (
    ("huggingface_hub", ("OfflineModeIsEnabled", "LocalEntryNotFoundError")),
    ("requests", ("ConnectionError", "Timeout")),
    ("urllib3", ("MaxRetryError", "NewConnectionError", "NameResolutionError")),
    ("httpx", ("NetworkError", "TimeoutException")),
    ("httpcore", ("NetworkError", "TimeoutException")),
    ("aiohttp", ("ClientConnectionError",)),
    ("socket", ("gaierror",)),
)
_ERRORS = frozenset(
    (errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.ECONNRESET)
)
#: Of transformers and others, where they do not say what caused it.
_TEXTS = (
    "We couldn't connect to",
    "outgoing traffic has been disabled",
    "offline mode is enabled",
    "Temporary failure in name resolution",
)


def is_wanted(error: BaseException | None) -> bool:
    """Of an exception, or of what caused it."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if _is_of_network(error):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _is_of_network(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in _ERRORS:
        return True
    if any(text in str(error) for text in _TEXTS):
        return True
    return any(
        kind.__module__.startswith(module) and kind.__name__ in names
        for kind in type(error).__mro__
        for module, names in _CLASSES
    )
