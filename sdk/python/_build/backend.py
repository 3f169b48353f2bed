"""The build backend of this package (PEP 517 and 660).

It needs only the standard library, so that `pip install .` works without a network.
"""

from __future__ import annotations

import base64
import hashlib
import io
import pathlib
import re
import tarfile
import zipfile
from typing import Any, Dict, List, Optional, Tuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tremor"
VERSION = re.search(r'^__version__ = "(.+)"$', (PACKAGE / "__init__.py").read_text(), re.M)[1]
FULL_NAME = f"tremor-{VERSION}"
METADATA = f"""\
Metadata-Version: 2.1
Name: tremor
Version: {VERSION}
Summary: Connectors for tremor in Python
License: MIT OR Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/markdown

"""
WHEEL = """\
Wheel-Version: 1.0
Generator: tremor
Root-Is-Purelib: true
Tag: py3-none-any
"""
#: Time of all files, so that equal sources give equal archives.
DATE = (1980, 1, 1, 0, 0, 0)


def _metadata() -> bytes:
    return (METADATA + (ROOT / "README.md").read_text()).encode()


def _sources() -> List[pathlib.Path]:
    return sorted(it for it in PACKAGE.rglob("*") if it.is_file() and "__pycache__" not in it.parts)


def _write_wheel(folder: str, files: List[Tuple[str, bytes]]) -> str:
    info = f"{FULL_NAME}.dist-info"
    files = [*files, (f"{info}/METADATA", _metadata()), (f"{info}/WHEEL", WHEEL.encode())]
    record = ""
    for name, contents in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(contents)}\n"
    files.append((f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode()))
    wheel = f"{FULL_NAME}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in files:
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, contents, zipfile.ZIP_DEFLATED)
    return wheel


def build_wheel(
    wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None
) -> str:
    return _write_wheel(
        wheel_directory,
        [(it.relative_to(PACKAGE.parent).as_posix(), it.read_bytes()) for it in _sources()],
    )


def build_editable(
    wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None
) -> str:
    return _write_wheel(wheel_directory, [("tremor.pth", f"{PACKAGE.parent}\n".encode())])


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    name = f"{FULL_NAME}.tar.gz"
    files = [(it.relative_to(ROOT).as_posix(), it.read_bytes()) for it in _sources()]
    for other in ("pyproject.toml", "README.md", "_build/backend.py"):
        files.append((other, (ROOT / other).read_bytes()))
    files.append(("PKG-INFO", _metadata()))
    with tarfile.open(pathlib.Path(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, contents in files:
            entry = tarfile.TarInfo(f"{FULL_NAME}/{path}")
            entry.size = len(contents)
            archive.addfile(entry, io.BytesIO(contents))
    return name
