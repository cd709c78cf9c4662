import ctypes
import hashlib
import os
import subprocess
import tempfile

import torch


class CppKernels:
    """Takes the place of Inductor's own loader: all kernels of this file are
    one library, built once; nothing of torch.compile's compiler is imported."""

    def __init__(self, capability, flags):
        here = torch.backends.cpu.get_cpu_capability()
        if here != capability:
            raise RuntimeError(
                f"these kernels are for {capability}, and this processor's vectors are {here}"
            )
        self._flags = flags
        self._sources = [
            "#include <torch/csrc/inductor/cpp_prefix.h>\n#include <exception>\n#include <string>\n"
        ]
        self._functions = []

    def cpp_pybinding(self, types, source):
        """A function of tensors and numbers, as Inductor's is."""
        number = len(self._sources) - 1
        names = [f"a{i}" for i in range(len(types))]
        declared = ", ".join(map(" ".join, zip(types, names)))
        # An exception that left through C would end the process.
        self._sources.append(
            f"#define kernel kernel_{number}\n{source}\n#undef kernel\n"
            f'extern "C" const char* call_{number}({declared}) try {{\n'
            f"  kernel_{number}({', '.join(names)});\n  return nullptr;\n"
            "} catch (const std::exception& error) {\n"
            "  static thread_local std::string text;\n"
            "  return (text = error.what()).c_str();\n}\n"
        )

        def run(*arguments):
            error = self._functions[number](
                *[
                    argument.data_ptr() if isinstance(argument, torch.Tensor) else argument
                    for argument in arguments
                ]
            )
            if error:
                raise RuntimeError(error.decode(errors="replace"))

        self._functions.append(
            [
                ctypes.c_void_p
                if "*" in type_
                else ctypes.c_double
                if "float" in type_ or "double" in type_
                else ctypes.c_int64
                for type_ in types
            ]
        )
        return run

    def wait(self, _):
        library = ctypes.CDLL(self._built())
        for number, types in enumerate(self._functions):
            function = library[f"call_{number}"]
            function.argtypes, function.restype = types, ctypes.c_char_p
            self._functions[number] = function

    def _built(self):
        root = os.path.dirname(torch.__file__)
        command = [
            os.environ.get("CXX", "g++"),
            *self._flags,
            "-shared",
            "-fPIC",
            "-I" + os.path.join(root, "include"),
            "-L" + os.path.join(root, "lib"),
            "-x",
            "c++",
        ]
        after = ["-ltorch_cpu", "-lgomp"]
        text = "".join(self._sources)
        key = "\0".join([*command, torch.__version__, text])
        name = "inductor_" + hashlib.sha256(key.encode()).hexdigest()[:32] + ".so"
        folder = os.environ.get("WEFT_KERNEL_CACHE") or tempfile.mkdtemp()
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            with tempfile.TemporaryDirectory(dir=folder) as work:
                made = os.path.join(work, name)
                done = subprocess.run(
                    [*command, "-", "-x", "none", *after, "-o", made],
                    input=text,
                    text=True,
                    capture_output=True,
                    check=False,
                )
                if done.returncode != 0:
                    raise RuntimeError(
                        "Inductor's kernels do not build: "
                        + "\n".join(done.stderr.splitlines()[:20])
                    )
                os.replace(made, path)  # whole or not at all
        return path
