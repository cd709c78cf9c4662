"""Where a composed module's C++ kernels lie: a folder that machines share has a
folder for each kind of processor, since kernels are built for the processor."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import types
import unittest
from typing import Any
from unittest import mock

from weft_case import ROOT

PARTS = ("cache", "loader")
IMPORTS = "import ctypes, hashlib, os, platform, shutil, subprocess, tempfile, torch\n"
FLAGS = ["-O1", "-march=native", "-shared", "-fPIC"]
SOURCE = 'extern "C" int kernel_function() { return NUMBER; }'


def loader(processor: str) -> types.SimpleNamespace:
    """A composed module's loader, on a processor of that name."""
    text = IMPORTS
    for part in PARTS:
        path = os.path.join(ROOT, "compiler", "compose", "python", part + ".py")
        with open(path, encoding="utf-8") as file:
            text += file.read()
    made: dict[str, Any] = {"_weft_flags": FLAGS}
    exec(compile(text, "loader", "exec"), made)
    made["_weft_processor"] = lambda: processor
    return types.SimpleNamespace(**made)


def library_name(source: str) -> str:
    key = "\0".join([source, *FLAGS])
    return hashlib.sha256(key.encode()).hexdigest()[:32] + ".so"


class KernelFolders(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        variables = {"WEFT_KERNEL_CACHE": os.path.join(self.folder, "shared")}
        environment = mock.patch.dict(os.environ, variables)
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("WEFT_BUILT_KERNELS", None)

    def shared(self, *names: str) -> str:
        return os.path.join(self.folder, "shared", *names)

    def build(self, source: str, path: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        command = ["g++", *FLAGS, "-x", "c++", "-", "-o", path]
        subprocess.run(command, input=source, text=True, check=True)

    def test_each_kind_of_processor_has_its_own(self) -> None:
        # As built elsewhere, with these flags: here it would be another library.
        foreign = SOURCE.replace("NUMBER", "1")
        own = SOURCE.replace("NUMBER", "2")
        name = library_name(own)
        self.build(foreign, self.shared(name))
        self.build(foreign, self.shared("another", name))
        library = loader("this")._weft_build(own)
        self.assertEqual(library.kernel_function(), 2)
        self.assertTrue(os.path.exists(self.shared("this", name)))
        other = loader("third")._weft_build(own)
        self.assertEqual(other.kernel_function(), 2)
        self.assertTrue(os.path.exists(self.shared("third", name)))

    def test_what_is_built_is_found_again(self) -> None:
        source = SOURCE.replace("NUMBER", "3")
        loader("this")._weft_build(source)
        with mock.patch.object(subprocess, "run", side_effect=AssertionError("built again")):
            again = loader("this")._weft_build(source)
        self.assertEqual(again.kernel_function(), 3)

    def test_what_the_run_has_built_is_used(self) -> None:
        source, built = SOURCE.replace("NUMBER", "4"), os.path.join(self.folder, "built")
        self.build(SOURCE.replace("NUMBER", "5"), os.path.join(built, library_name(source)))
        with mock.patch.dict(os.environ, {"WEFT_BUILT_KERNELS": built}):
            library = loader("this")._weft_build(source)
            self.assertEqual(library.kernel_function(), 5)
            more = loader("this")._weft_build(SOURCE.replace("NUMBER", "6"))
        self.assertEqual(more.kernel_function(), 6)
        self.assertEqual(os.listdir(built), [library_name(source)])


if __name__ == "__main__":
    unittest.main()
