"""Removes folders that untrusted code may have made. No link is followed. A tree may have
any depth and any names. runtime/machine/remove_tree.cpp does the same for folders that
outlive a process."""

import os
import secrets
import stat
import time

#: Emptying takes milliseconds, unless somebody goes on filling.
EMPTY_MAX_S = 60.0


def empty(folder: int) -> None:
    """Removes all that lies in the folder of that descriptor; OSError if it cannot."""
    until = time.monotonic() + EMPTY_MAX_S
    while names := os.listdir(folder):
        for name in names:
            remove(folder, name, lifts=True)
            if time.monotonic() > until:
                raise TimeoutError("the folder is filled as fast as it is emptied")


def remove(folder: int, name: str, lifts: bool = False) -> None:
    """Removes one entry. lifts: the folders in it are moved into `folder` instead of
    being removed with it."""
    try:
        os.unlink(name, dir_fd=folder)
        return
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        pass
    inner = open_writable(folder, name)
    try:
        if lifts:
            _lift(inner, folder)
        else:
            empty(inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def _lift(inner: int, folder: int) -> None:
    """Removes the files in `inner` and moves its folders up into `folder`: a tree gets
    flatter by this, however deep it is."""
    for name in os.listdir(inner):
        try:
            os.unlink(name, dir_fd=inner)
        except FileNotFoundError:
            continue
        except (IsADirectoryError, PermissionError):
            os.close(open_writable(inner, name))  # a move writes its ".."
            os.rename(name, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=folder)


def open_writable(folder: int, name: str) -> int:
    """A descriptor of the folder `name`, which this user then may list and change."""
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        path = f"/proc/self/fd/{place}"
        if stat.S_IMODE(os.fstat(place).st_mode) & 0o700 != 0o700:
            os.chmod(path, 0o700)
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(place)
