"""Where a composed module's C++ kernels lie: a folder that machines share has a
folder for each kind of processor and each compiler, Python and PyTorch."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import types
import unittest
from typing import Any
from unittest import mock

import torch
from weft_case import ROOT

PARTS = ("cache", "loader")
IMPORTS = "import ctypes, hashlib, os, platform, shutil, subprocess, sys, tempfile, torch\n"
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
        builders = loader("this")._weft_builders()
        self.build(foreign, self.shared("another-" + builders, name))
        library = loader("this")._weft_build(own)
        self.assertEqual(library.kernel_function(), 2)
        self.assertTrue(os.path.exists(self.shared("this-" + builders, name)))
        other = loader("third")._weft_build(own)
        self.assertEqual(other.kernel_function(), 2)
        self.assertTrue(os.path.exists(self.shared("third-" + builders, name)))

    def compiler(self, folder: str, version: str, number: int) -> str:
        """The path of a compiler whose kernels give that number."""
        path = os.path.join(self.folder, folder, "c++")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                f"#!/bin/sh\n[ $1 = --version ] && exec echo {version}\n"
                f'exec g++ -DNUMBER={number} "$@"\n'
            )
        os.chmod(path, 0o755)
        return path

    def number_by(self, compiler: str) -> Any:
        with mock.patch.dict(os.environ, {"CXX": compiler}):
            return loader("this")._weft_build(SOURCE).kernel_function()

    def test_each_compiler_has_its_own(self) -> None:
        first, second = self.compiler("a", "1.0", 1), self.compiler("b", "1.0", 2)
        self.assertEqual([self.number_by(one) for one in (first, second, first)], [1, 2, 1])
        # A new version at the same path builds again.
        self.compiler("a", "1.1", 3)
        self.assertEqual(self.number_by(first), 3)
        # The same version does not.
        self.compiler("a", "1.1", 4)
        self.assertEqual(self.number_by(first), 3)

    def test_each_pytorch_has_its_own(self) -> None:
        before = loader("this")._weft_builders()
        with mock.patch.object(torch, "__version__", "0.0.0"):
            self.assertNotEqual(loader("this")._weft_builders(), before)
        self.assertEqual(loader("this")._weft_builders(), before)

    def test_what_is_built_is_found_again(self) -> None:
        source = SOURCE.replace("NUMBER", "3")
        loader("this")._weft_build(source)
        with mock.patch.object(subprocess, "run", side_effect=OSError("built again")):
            # Where no compiler says its version, what it built is another's.
            self.assertRaises(OSError, loader("this")._weft_build, source)
        run = subprocess.run

        def asked(command: list[str], **options: Any) -> Any:
            self.assertIn("--version", command, "built again")
            return run(command, **options)

        with mock.patch.object(subprocess, "run", asked):
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
