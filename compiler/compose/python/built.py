def _weft_built(text, arch):
    """The package that weft built of that text for such a GPU
    (docs/gpu-package.md), or None. It lies in `build`, in the folder of this
    file or of the run that composed it, or where WEFT_BUILT_KERNELS says."""
    key = hashlib.sha256(f"{text}\0{arch}".encode()).hexdigest()[:32]
    for folder, is_safe in _weft_build_folders():
        path = os.path.join(folder, key + ".json")
        try:
            if is_safe(folder) and is_safe(path):
                with open(path, encoding="utf-8") as file:
                    package = json.load(file)
                if package["format"] == 1 and package["arch"] == arch:
                    return package
        except (OSError, ValueError, KeyError, TypeError):
            pass  # there is none, or half of one: it is built here
    return None


def _weft_build_folders():
    """(folder, whether one may trust a path in it), the nearest first."""
    if os.environ.get("WEFT_BUILT_KERNELS"):
        yield os.environ["WEFT_BUILT_KERNELS"], lambda path: True
    if not os.path.isfile(globals().get("__file__", "")):
        return
    here = os.path.dirname(os.path.abspath(__file__))
    mine = os.stat(here)

    def is_safe(path):  # whoever could write it could write this file, too
        facts = os.stat(path)
        return facts.st_uid == mine.st_uid and not (
            facts.st_mode & ~mine.st_mode & 0o022)

    folder = here
    for _ in range(3):  # a run's: composed/model_new.py, kernels/ID/kernel.py
        yield os.path.join(folder, "build"), is_safe
        folder = os.path.dirname(folder)


