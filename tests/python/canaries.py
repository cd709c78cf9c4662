"""A tree of files that nothing may touch: compared before and after."""

import hashlib
import os
import stat


class Canaries:
    """Files, folders and links in `folder`, which is made."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(os.path.join(folder, "keys"))
        os.makedirs(os.path.join(folder, "empty"))
        for name in ("secret", "keys/id", "problem.py", "journal.db", "graph.json"):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(f"canary {name}\n")
        os.chmod(os.path.join(folder, "keys"), 0o700)
        os.symlink("secret", os.path.join(folder, "link"))
        self.before = self.look()

    def look(self) -> dict[str, tuple[object, ...]]:
        """{path: kind, mode, owner, time, content}"""
        found: dict[str, tuple[object, ...]] = {}
        for at, folders, names in os.walk(self.folder):
            for path in [at, *(os.path.join(at, name) for name in folders + names)]:
                about = os.lstat(path)
                content = ""
                if stat.S_ISREG(about.st_mode):
                    with open(path, "rb") as file:
                        content = hashlib.sha256(file.read()).hexdigest()
                elif stat.S_ISLNK(about.st_mode):
                    content = os.readlink(path)
                found[path] = (
                    about.st_mode,
                    about.st_uid,
                    about.st_gid,
                    about.st_mtime_ns,
                    about.st_ino,
                    content,
                )
        return found

    def changed(self) -> list[str]:
        """The paths that are not as they were."""
        after = self.look()
        return sorted(
            path for path in {*self.before, *after} if self.before.get(path) != after.get(path)
        )
