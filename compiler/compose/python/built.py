def _weft_built(text, arch):
    """The package that weft built of that text for such a GPU
    (docs/reference/gpu-package.md), or None. It lies in `build`, in the folder of this
    file or of the run that composed it, or where WEFT_BUILT_KERNELS says."""
    key = hashlib.sha256(f"{text}\0{arch}".encode()).hexdigest()[:32]
    for folder, is_safe in _weft_build_folders():
        path = os.path.join(folder, key + ".json")
        try:
            if not is_safe(os.stat(folder)):
                continue  # nothing there is opened: a pipe would keep it waiting
            with open(path, encoding="utf-8") as file:
                if is_safe(os.fstat(file.fileno())):
                    package = json.load(file)
                    if package["format"] == 1 and package["arch"] == arch:
                        return package
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass  # there is none, or half of one: it is built here
    return None


def _weft_build_folders():
    """(folder, whether one may trust what has such a stat there), the nearest
    first."""
    if os.environ.get("WEFT_BUILT_KERNELS"):
        yield os.environ["WEFT_BUILT_KERNELS"], lambda facts: True
    if not os.path.isfile(globals().get("__file__", "")):
        return
    here = os.path.dirname(os.path.abspath(__file__))
    mine = os.stat(here)

    def is_safe(facts):  # whoever could write it could write this file, too
        theirs = 0o022 if facts.st_gid == mine.st_gid else 0o002
        return facts.st_uid == mine.st_uid and not (
            facts.st_mode & 0o022 & ~(mine.st_mode & theirs))

    folder = here
    for _ in range(3):  # a run's: composed/model_new.py, kernels/ID/kernel.py
        yield os.path.join(folder, "build"), is_safe
        folder = os.path.dirname(folder)


