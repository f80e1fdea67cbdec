"""Object code on disk, so that the next process does not compile the same kernels again.

An entry is named by a digest of everything that decides it: the MLIR text, the version of the
compiler behind it, and the processor. It holds its own digest: a damaged entry is not used.
"""

import hashlib
import os
import tempfile
from importlib.metadata import version
from pathlib import Path

from pydisc.codegen.cpu.jit import PIPELINE, compile_to_object
from pydisc.support import knobs
from pydisc.support.log import log
from pydisc.targets.cpu import CpuTarget

_LIMIT = 256 << 20
"""Bytes of the cache; beyond, the entries used longest ago go."""
_DIGEST = 32


def cached_object(text: str, target: CpuTarget) -> bytes:
    """The object code of a module: from the cache, or compiled now and kept there."""
    folder = cache_folder()
    if folder is None:
        return compile_to_object(text)
    toolchain = (version("torch-mlir"), PIPELINE, target)
    key = hashlib.sha256(f"{toolchain!r}\n{text}".encode()).hexdigest()
    path = folder / f"{key}.o"
    found = _read(path)
    if found is None:
        found = compile_to_object(text)
        _write(path, found)
    return found


def cache_folder() -> Path | None:
    """Where the cache is: the knob `cache`, else the user's cache directory; None if it is off."""
    setting = knobs.current().cache
    if setting == "off":
        return None
    if setting:
        return Path(setting)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pydisc"


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    code = data[_DIGEST:]
    return code if hashlib.sha256(code).digest() == data[:_DIGEST] else None


def _write(path: Path, code: bytes) -> None:
    """Put an entry in its place at once: readers see all of it or nothing."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_room(path.parent, len(code))
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(file.name, path)
    except OSError as error:
        log.info("the cache of compiled kernels is not used: %s", error)


def _make_room(folder: Path, needed: int) -> None:
    entries = []
    for path in folder.glob("*.o"):
        try:
            found = path.stat()
        except OSError:  # another process has removed it
            continue
        entries.append((found.st_mtime, found.st_size, path))
    total = needed + sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= _LIMIT:
            return
        path.unlink(missing_ok=True)
        total -= size
