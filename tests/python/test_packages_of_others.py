"""A composed module looks for packages of its kernels in folders named `build` nearby. In
one that others can write, nothing is opened: a pipe would keep the import waiting."""

import hashlib
import os
import signal
import tempfile
import unittest
from typing import Any

from weft_case import ROOT

NAME = hashlib.sha256(b"text\0sm_90").hexdigest()[:32] + ".json"
PACKAGE = '{"format": 1, "arch": "sm_90"}'


class PackagesOfOthers(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.build = os.path.join(self.folder, "build")
        os.mkdir(self.build)
        self.module = os.path.join(self.folder, "model_new.py")
        open(self.module, "w", encoding="utf-8").close()
        # A process that waits for a pipe is interrupted.
        self.addCleanup(signal.alarm, 0)
        signal.signal(signal.SIGALRM, self.waits)
        signal.alarm(20)

    def waits(self, *_: object) -> None:
        raise AssertionError("the import waits for a pipe")

    def found(self) -> object:
        """The built kernel that the module finds, or None."""
        path = os.path.join(ROOT, "compiler", "compose", "python", "built.py")
        with open(path, encoding="utf-8") as file:
            text = "import hashlib, json, os\n" + file.read()
        made: dict[str, Any] = {"__file__": self.module}
        exec(compile(text, "built", "exec"), made)
        os.environ.pop("WEFT_BUILT_KERNELS", None)
        return made["_weft_built"]("text", "sm_90")

    def write(self) -> None:
        with open(os.path.join(self.build, NAME), "w", encoding="utf-8") as file:
            file.write(PACKAGE)

    def test_a_package_of_one_s_own_is_found(self) -> None:
        self.write()
        os.chmod(os.path.join(self.build, NAME), 0o644)
        os.chmod(self.build, 0o755)
        self.assertEqual(self.found(), {"format": 1, "arch": "sm_90"})

    def test_a_pipe_is_not_waited_for(self) -> None:
        os.mkfifo(os.path.join(self.build, NAME))
        os.chmod(self.build, 0o777)
        self.assertIsNone(self.found())

    def test_a_link_to_a_pipe_is_not_waited_for(self) -> None:
        os.mkfifo(os.path.join(self.folder, "pipe"))
        os.symlink(os.path.join(self.folder, "pipe"), os.path.join(self.build, NAME))
        os.chmod(self.build, 0o777)
        self.assertIsNone(self.found())

    def test_a_folder_that_is_a_link_to_one_of_others_is_not_opened(self) -> None:
        os.rmdir(self.build)
        elsewhere = os.path.join(self.folder, "elsewhere")
        os.mkdir(elsewhere)
        os.mkfifo(os.path.join(elsewhere, NAME))
        os.chmod(elsewhere, 0o777)
        os.symlink(elsewhere, self.build)
        self.assertIsNone(self.found())


if __name__ == "__main__":
    unittest.main()
