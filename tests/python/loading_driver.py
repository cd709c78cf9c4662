"""A part of libcuda.so.1, for tests without a device: it loads a module and finds its
kernels, which are numbered by `functions`, their names."""


class LoadingDriver:
    def __init__(self):
        self.functions = []

    def cuModuleLoadData(self, module, cubin):
        module._obj.value = 1
        return 0 if cubin.startswith(b"\x7fELF") else 200

    def cuModuleGetFunction(self, function, module, name):
        self.functions.append(name.decode())
        function._obj.value = len(self.functions)
        return 0

    def cuFuncSetAttribute(self, function, attribute, value):
        return 0
