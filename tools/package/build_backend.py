"""Build backend of the package: scikit-build-core, with another editable wheel.

`pip install ./` compiles weft and packs it, as scikit-build-core does. `pip install -e ./`
compiles nothing. Its wheel has a path entry for python/, the entry points and the console
script. The package uses the program in build/ (weft/backend/program.py). scikit-build-core's
editable wheel is not used: it adds an import hook, which is stronger than PYTHONPATH.
"""

import base64
import hashlib
import pathlib
import tempfile
import zipfile

from scikit_build_core.build import (
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = "Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, str | list[str]] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Writes the editable wheel and returns its file name."""
    del metadata_directory  # pip's copy lacks nothing that is not written again here
    with tempfile.TemporaryDirectory() as folder:
        name = prepare_metadata_for_build_editable(folder, config_settings)
        metadata = pathlib.Path(folder, name)
        (metadata / "WHEEL").write_text(WHEEL)
        files = {
            f"{name}/{path.name}": path.read_bytes()
            for path in sorted(metadata.iterdir())
            if path.is_file()
        }
    files["_weft_checkout.pth"] = f"{ROOT / 'python'}\n".encode()
    files.pop(f"{name}/RECORD", None)
    record = f"{name}/RECORD"
    lines = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    wheel = f"{name.removesuffix('.dist-info')}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, wheel), "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return wheel


def _digest(content: bytes) -> str:
    """The hash of a file as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
