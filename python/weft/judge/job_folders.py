"""The folders of an oracle's candidates: a fresh one for each job.

    ROOT/staged   what the oracle writes; candidates may read it, no more
    ROOT/work     the sandbox's scratch folder: candidates write it
    ROOT/kept     builds of candidates that passed; no candidate sees them

Everything below `work` and `kept` was written by untrusted code. So a file is opened
relative to a folder's descriptor, and no link is followed. Nothing here recurses: a tree
may be deeper than Python's stack or the longest path.
"""

import contextlib
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from typing import Iterator

from weft.device.tree_removal import empty, remove

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Builds are kept for the job that times what another job checked. They may lie in
#: memory (/dev/shm), hence the limits.
KEPT_MAX = 8
KEPT_BYTES_MAX = 128 << 20
KEPT_ENTRIES_MAX = 10_000
KEPT_DEPTH_MAX = 12


class NotStaged(Exception):
    """A candidate's files could not be prepared; the text says why."""


@dataclass(frozen=True)
class Build:
    """A folder that one candidate builds in: its name, and what it was for."""

    key: str
    name: str


class JobFolders:
    """Prepares a job's files. Not thread-safe; no candidate may run meanwhile."""

    def __init__(self, root: str) -> None:
        """Empties `root`, whoever filled it, or makes it."""
        self.root = os.path.abspath(root)
        os.makedirs(self.root, exist_ok=True)
        self._root = os.open(self.root, _FOLDER)
        empty(self._root)
        self._staged = self._make("staged")
        self._kept = self._make("kept")
        self._work = self._make("work")
        self._job = ""
        self._build: Build | None = None
        #: The least recently used first.
        self._builds: list[Build] = []

    def renew_work(self) -> None:
        """Gives the next sandbox another `work`. Before its start: processes of the
        last sandbox that are still dying reach its old folder only, while the
        launcher changes the owner of the new one."""
        os.close(self._work)
        self._work = -1
        with contextlib.suppress(FileNotFoundError):
            os.rename(
                "work", f"old-{secrets.token_hex(8)}", src_dir_fd=self._root, dst_dir_fd=self._root
            )
        self._work = self._make("work")
        if self._build is not None:  # a job goes on in another process
            self._make_build(self._build.name)
        for name in os.listdir(self._root):
            if name.startswith("old-"):
                with contextlib.suppress(OSError):
                    remove(self._root, name)

    def begin(self) -> None:
        """Leaves nothing of earlier jobs where the next one's candidate looks."""
        with staging():
            self._build = None
            os.fchmod(self._work, 0o755)  # a candidate may have taken our rights
            empty(self._work)
            empty(self._staged)
            self._job = secrets.token_hex(8)
            os.mkdir(self._job, 0o755, dir_fd=self._staged)
            with _opened(self._staged, self._job) as folder:
                os.fchmod(folder, 0o755)  # whatever the umask

    def place(self, name: str, content: bytes) -> str:
        """That content as a file that the sandbox can read; its path. ValueError: the
        name is more than one name."""
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError(f"{name!r} is no file's name")
        with staging(), _opened(self._staged, self._job) as folder:
            file = os.open(name, _NEW_FILE, 0o644, dir_fd=folder)
            with os.fdopen(file, "wb") as out:
                out.write(content)
                os.fchmod(file, 0o755)
        return os.path.join(self.root, "staged", self._job, name)

    def build_folder(self, content: bytes) -> str:
        """Where the candidate with that content may build; the folder's path. If the
        candidate passed before, its build is there."""
        key = hashlib.sha256(content).hexdigest()
        with staging():
            build = self._returned(key) or self._made(key)
        self._build = build
        return os.path.join(self.root, "work", build.name)

    def keep_build(self) -> None:
        """Keeps the job's build for another job of the same candidate, if it is small.
        After the job's last process is gone."""
        build, self._build = self._build, None
        if build is None:
            return
        try:
            if not is_small(self._work, build.name):
                return
            os.rename(build.name, build.name, src_dir_fd=self._work, dst_dir_fd=self._kept)
        except OSError:
            return  # it is built again
        self._builds.append(build)
        while len(self._builds) > KEPT_MAX:
            with contextlib.suppress(OSError):
                remove(self._kept, self._builds.pop(0).name)

    def close(self) -> None:
        for folder in (self._staged, self._kept, self._work, self._root):
            if folder >= 0:
                os.close(folder)
        self._staged = self._kept = self._work = self._root = -1

    def _make(self, name: str) -> int:
        os.mkdir(name, 0o755, dir_fd=self._root)
        folder = os.open(name, _FOLDER, dir_fd=self._root)
        os.fchmod(folder, 0o700 if name == "kept" else 0o755)
        return folder

    def _returned(self, key: str) -> Build | None:
        """A kept build, back where the sandbox sees it."""
        build = next((one for one in self._builds if one.key == key), None)
        if build is None:
            return None
        self._builds.remove(build)
        # Another sandbox is another user, who cannot write there.
        owner = os.fstat(self._work).st_uid
        about = os.stat(build.name, dir_fd=self._kept, follow_symlinks=False)
        if about.st_uid != owner:
            remove(self._kept, build.name)
            return None
        os.rename(build.name, build.name, src_dir_fd=self._kept, dst_dir_fd=self._work)
        return build

    def _made(self, key: str) -> Build:
        """An empty one, of a name that nobody can know beforehand."""
        build = Build(key, secrets.token_hex(16))
        self._make_build(build.name)
        return build

    def _make_build(self, name: str) -> None:
        os.mkdir(name, 0o700, dir_fd=self._work)
        with _opened(self._work, name) as folder:
            # As root, the sandbox's launcher gives `work` and all in it to another
            # user. If it has, this folder came too late for that.
            owner = os.fstat(self._work)
            if owner.st_uid != os.geteuid():
                os.fchown(folder, owner.st_uid, owner.st_gid)


@contextlib.contextmanager
def staging() -> Iterator[None]:
    """Within it, a failure of the file system is NotStaged."""
    try:
        yield
    except OSError as error:
        raise NotStaged(f"its files could not be staged: {error.strerror or error}") from None


def is_small(folder: int, name: str) -> bool:
    """Whether the folder `name` holds little enough to be kept."""
    size_bytes = entries = 0
    left = [(os.open(name, _FOLDER, dir_fd=folder), 0)]
    try:
        while left:
            at, depth = left.pop()
            try:
                with os.scandir(at) as found:
                    for entry in found:
                        about = entry.stat(follow_symlinks=False)
                        entries += 1
                        size_bytes += about.st_blocks * 512
                        if (
                            size_bytes > KEPT_BYTES_MAX
                            or depth > KEPT_DEPTH_MAX
                            or entries > KEPT_ENTRIES_MAX
                            or len(left) > KEPT_ENTRIES_MAX // 50
                        ):
                            return False
                        if stat.S_ISDIR(about.st_mode):
                            inner = os.open(entry.name, _FOLDER, dir_fd=at)
                            left.append((inner, depth + 1))
            finally:
                os.close(at)
    finally:
        for at, _ in left:
            os.close(at)
    return True


@contextlib.contextmanager
def _opened(folder: int, name: str) -> Iterator[int]:
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield inner
    finally:
        os.close(inner)
