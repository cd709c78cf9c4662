def _weft_correct_interpreter(source):
    """Lets Triton's interpreter round to bfloat16 as a GPU does, which takes the
    package weft, or warns that it truncates."""
    try:
        from weft.build import triton_interpreter
    except ImportError:
        import warnings

        if "bfloat16" in source:
            warnings.warn(
                "TRITON_INTERPRET=1: Triton's interpreter truncates to bfloat16 "
                "where a GPU rounds, so results differ in the last digit; install "
                "the package weft, which corrects this, or run on a GPU",
                stacklevel=2)
    else:
        triton_interpreter.mend()


# Triton reads a kernel's text from the file that it was defined in.
def _weft_open_triton(source, _folder=[]):
    """kernel_function of that Triton text."""
    if not _folder:
        _folder.append(_weft_cache())
    name = "weft_" + hashlib.sha256(source.encode()).hexdigest()[:32]
    path = os.path.join(_folder[0], name + ".py")
    if not os.path.exists(path):
        with tempfile.NamedTemporaryFile(
                "w", dir=_folder[0], delete=False, encoding="utf-8") as file:
            file.write(source)
        os.replace(file.name, path)  # whole or not at all, for all who race
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if _weft_interpreted:
        _weft_correct_interpreter(source)
        return module.kernel_function
    built = _WeftBuilt(source)
    for called in module.kernel_function.__code__.co_names:
        kernel = getattr(module, called, None)
        if isinstance(kernel, module.triton.JITFunction):
            setattr(module, called, _WeftDirect(kernel, built))
    return _weft_where_inputs_are(module.kernel_function)


