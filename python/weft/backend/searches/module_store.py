"""Composed modules of earlier searches, on disk: a folder each.

`problem.py`, `model_new.py` (where kernels won) and in `build` what was built of it for a
GPU, `report.md`, `result.json`, and last of all `about.json`, without which the folder
counts for nothing. If a later process took a module, `verdict.json` has its full verdict
(background_verification.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from weft.build import packages

FORMAT = 1
#: The least recently used go beyond so many.
ENTRIES_MAX = 512
#: Between two looks whether another process has done with an entry.
CLAIM_S = 0.5
#: Older failures are removed: no program waits for them any more.
FAILURE_S = 86_400.0
FILES = ("problem.py", "model_new.py", "report.md", "result.json", "subgraphs.json")


def is_cut_short(result: dict[str, Any]) -> bool:
    """Whether a larger budget could give more than this content of a result.json."""
    reasons = [one.get("reason", "") for one in result["subgraphs"]]
    return any("budget" in one for one in (result["summary"], *reasons))


def folder() -> str:
    """Where they are: WEFT_CACHE_DIR, else below the user's cache."""
    named = os.environ.get("WEFT_CACHE_DIR")
    if named:
        return os.path.join(named, "modules")
    return os.path.join(user_cache(), "modules")


def user_cache() -> str:
    """The program's folder below the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "weft")


def find(key: str) -> tuple[Any, Any] | None:
    """(path of the entry, what it says of itself), or None. An entry that
    others could have written is none."""
    path = os.path.join(folder(), key)
    try:
        for name in ("", *os.listdir(path)):
            about = os.stat(os.path.join(path, name))
            if about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
        with open(os.path.join(path, "about.json"), encoding="utf-8") as file:
            about = json.load(file)
        os.utime(path)
    except (OSError, ValueError):
        return None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        return None
    return path, about


def keep(key: str, run: Any, about: Any) -> str:
    """Keeps what a run directory has; the entry's path. OSError if it cannot."""
    os.makedirs(folder(), exist_ok=True)
    made = tempfile.mkdtemp(prefix=".making-", dir=folder())
    try:
        for name in FILES:
            part = "composed" if name == "model_new.py" else ""
            source = os.path.join(run, part, name)
            if os.path.exists(source):
                shutil.copyfile(source, os.path.join(made, name))
        if os.path.exists(os.path.join(made, "model_new.py")):
            with open(os.path.join(made, "model_new.py"), encoding="utf-8") as file:
                packages.hand_on(run, file.read(), os.path.join(made, "build"))
        with open(os.path.join(made, "about.json"), "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **about}, file)
        for parent, folders, files in os.walk(made):
            for name in folders + files:  # whatever the process's umask is
                os.chmod(os.path.join(parent, name), 0o700 if name in folders else 0o600)
        path = os.path.join(folder(), key)
        remove(key)
        os.rename(made, path)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if find(key) is None:  # else another process was as quick
            raise
    trim()
    return os.path.join(folder(), key)


def keep_failure(key: str, **about: object) -> None:
    """Stores why a search found nothing, for the processes that wait for it. If the disk
    cannot be written, each of them searches."""
    with contextlib.suppress(OSError):
        os.makedirs(folder(), exist_ok=True)
        made, name = tempfile.mkstemp(prefix=".failed-", dir=folder())
        with os.fdopen(made, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "stored": time.time(), **about}, file)
        os.rename(name, _failure(key))
    for old in glob.glob(os.path.join(glob.escape(folder()), ".failed-*")):
        with contextlib.suppress(OSError):
            if os.stat(old).st_mtime < time.time() - FAILURE_S:
                os.unlink(old)


def failure_of(key: str) -> dict[str, Any] | None:
    """The failure that keep_failure() stored, or None. As with entries, a file that
    others could have written is ignored."""
    try:
        with open(_failure(key), encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            found = json.load(file)
    except (OSError, ValueError):
        return None
    is_own = about.st_uid == os.getuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found if is_own and isinstance(found, dict) and (found.get("format") == FORMAT) else None


def _failure(key: str) -> str:
    return os.path.join(folder(), f".failed-{key}.json")


def texts_of(path: str) -> dict[str, str]:
    """{name: text} of an entry's files, for keep_files()."""
    texts = {}
    for name in (
        *FILES,
        *(
            os.path.relpath(one, path)
            for one in sorted(glob.glob(os.path.join(path, "build", "*.json")))
        ),
    ):
        with (
            contextlib.suppress(FileNotFoundError),
            open(os.path.join(path, name), encoding="utf-8") as file,
        ):
            texts[name] = file.read()
    return texts


def keep_files(files: Any) -> Any:
    """Keeps these texts by their hash, if they are not there; the entry's
    path."""
    text = json.dumps(files, sort_keys=True)
    key = "saved-" + hashlib.sha256(text.encode()).hexdigest()[:32]
    found = find(key)
    if found is not None:
        return found[0]
    with tempfile.TemporaryDirectory() as run:
        for part in ("composed", "build"):
            os.makedirs(os.path.join(run, part))
        for name, content in files.items():
            part = "composed" if name == "model_new.py" else ""
            with open(os.path.join(run, part, name), "w", encoding="utf-8") as file:
                file.write(content)
        return keep(key, run, {"has_kernels": True})


@contextlib.contextmanager
def claimed(path: str, is_ending: Any) -> Iterator[None]:
    """While no other process has the entry judged: waits for that, but not when
    is_ending()."""
    try:
        claim = os.open(os.path.join(path, "judging"), os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError:  # the entry is gone, or cannot be written
        yield
        return
    try:
        while not is_ending():
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(CLAIM_S)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        with contextlib.suppress(OSError):  # a child may have the file open, too
            fcntl.flock(claim, fcntl.LOCK_UN)
        os.close(claim)


def verdict_of(path: str, digest: str, facts: Any) -> Any:
    """What remember_verdict() kept of a module with that text; {} if that was
    another, or by other facts."""
    try:
        with open(os.path.join(path, "verdict.json"), encoding="utf-8") as file:
            kept = json.load(file)
    except (OSError, ValueError):
        return {}
    is_this = isinstance(kept, dict) and (
        kept.get("format"),
        kept.get("module"),
        kept.get("facts"),
    ) == (FORMAT, digest, facts)
    return kept if is_this else {}


def remember_verdict(path: str, digest: str, facts: Any, **verdict: Any) -> None:
    """Keeps it if the entry still has that text. Without a disk that can be
    written the next process has it judged anew."""
    if not _holds(path, digest):
        return
    with contextlib.suppress(OSError):
        # Not in the entry, whose files find() looks at.
        made, name = tempfile.mkstemp(prefix=".verdict-", dir=folder())
        with os.fdopen(made, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "format": FORMAT,
                    "module": digest,
                    "facts": facts,
                    "seconds": int(time.time()),
                    **verdict,
                },
                file,
            )
        try:
            os.rename(name, os.path.join(path, "verdict.json"))
        except OSError:  # the entry is gone
            os.unlink(name)


def remove_module(path: str, digest: str) -> None:
    """The entry, unless it has another module by now."""
    if _holds(path, digest):
        shutil.rmtree(path, ignore_errors=True)


def _holds(path: str, digest: str) -> Any:
    try:
        with open(os.path.join(path, "model_new.py"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == digest
    except OSError:
        return False


def remove(key: str) -> None:
    shutil.rmtree(os.path.join(folder(), key), ignore_errors=True)


def entries() -> list[Any]:
    """Paths of all entries, the least recently used first."""
    try:
        found = [
            entry
            for entry in os.scandir(folder())
            if entry.is_dir() and not entry.name.startswith(".")
        ]
        return [entry.path for entry in sorted(found, key=lambda entry: entry.stat().st_mtime)]
    except OSError:
        return []


def trim() -> None:
    paths = entries()
    for path in paths[: max(0, len(paths) - ENTRIES_MAX)]:
        shutil.rmtree(path, ignore_errors=True)
