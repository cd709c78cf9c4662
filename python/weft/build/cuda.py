"""Builds a CUDA source into a GPU kernel package, ahead of time.

    python -m weft.build.cuda kernel.cu launches.json kernel.json --arch sm_90

Needs NVRTC (NVIDIA's compiler as a library: pip install nvidia-cuda-nvrtc, or the CUDA
toolkit) and no GPU. launches.json names the launches and their scratch memory, with the
fields of docs/reference/gpu-package.md.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import glob
import json
import os
import sys
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import Any

from weft.build import package_file
from weft.build.package_file import BuildError

OPTIONS = ("--std=c++17", "--extra-device-vectorization", "-default-device")


class NoCompiler(Exception):
    """There is no NVRTC here; the text says how to get it."""


def places() -> Iterator[str]:
    """Where NVRTC may lie, what suits this Python's packages best first."""
    for folder in sys.path:
        yield from sorted(
            glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*")), reverse=True
        )
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
    for root in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"):
        if root:
            yield from sorted(glob.glob(os.path.join(root, "lib64", "libnvrtc.so*")))


def open_compiler() -> ctypes.CDLL:
    for place in places():
        if ".alt." in place:
            continue
        try:
            library = ctypes.CDLL(place)
        except OSError:
            continue
        library.nvrtcCreateProgram.argtypes = (
            c_void_p,
            c_char_p,
            c_char_p,
            c_int,
            c_void_p,
            c_void_p,
        )
        library.nvrtcCompileProgram.argtypes = (c_void_p, c_int, c_void_p)
        for name in ("GetProgramLog", "GetCUBIN"):
            getattr(library, "nvrtc" + name).argtypes = (c_void_p, c_char_p)
            getattr(library, f"nvrtc{name}Size").argtypes = (c_void_p, c_void_p)
        library.nvrtcGetErrorString.restype = c_char_p
        return library
    raise NoCompiler(
        "no NVRTC (libnvrtc.so): pip install nvidia-cuda-nvrtc, or install the CUDA toolkit"
    )


class Compiler:
    def __init__(self) -> None:
        self._library = open_compiler()

    def cubin(self, source: str, arch: str, name: str = "kernel.cu") -> bytes:
        """What the GPU runs; BuildError with the compiler's lines."""
        program = c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(
                byref(program), source.encode(), name.encode(), 0, None, None
            )
        )
        options = [f"--gpu-architecture={arch}", *OPTIONS]
        array = (c_char_p * len(options))(*(o.encode() for o in options))
        code = self._library.nvrtcCompileProgram(program, len(options), array)
        if code != 0:
            log = self._read(program, "GetProgramLog").rstrip(b"\0 \n")
            raise BuildError(log.decode(errors="replace") or self._word(code))
        return self._read(program, "GetCUBIN")

    def _read(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t()
        self._check(getattr(self._library, f"nvrtc{what}Size")(program, byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, "nvrtc" + what)(program, text))
        return text.raw

    def _word(self, code: int) -> str:
        return self._library.nvrtcGetErrorString(code).decode()

    def _check(self, code: int) -> None:
        if code != 0:
            raise BuildError(f"NVRTC says {self._word(code)}")


def build(source: str, told: dict[str, Any], arch: str, compiler: Compiler) -> dict[str, Any]:
    """The package of that source, of which is launched what is told."""
    cubin = base64.b64encode(compiler.cubin(source, arch)).decode("ascii")
    return {
        "format": 1,
        "arch": arch,
        "scratch": told.get("scratch", []),
        "modules": [{"cubin": cubin}],
        "launches": [{"module": 0, **one} for one in told["launches"]],
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="weft.build.cuda")
    parser.add_argument("source")
    parser.add_argument("launches")
    parser.add_argument("package")
    parser.add_argument("--arch", required=True)
    options = parser.parse_args(arguments)

    def package() -> dict[str, Any]:
        with open(options.source, encoding="utf-8") as file:
            source = file.read()
        with open(options.launches, encoding="utf-8") as file:
            told = json.load(file)
        return build(source, told, options.arch, Compiler())

    return package_file.write(options.package, package, (BuildError, NoCompiler))


if __name__ == "__main__":
    sys.exit(main())
