"""Writing the stages of a compile to files."""

import os
from pathlib import Path


def write_stage(directory: str | os.PathLike[str], index: int, name: str, text: str) -> Path:
    """Write one stage as `<index>_<name>`, making the directory; a bare name gets `.mlir`.

    The files of a compile sort in the order in which its stages ran.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{index:02d}_{name if '.' in name else name + '.mlir'}"
    file.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
    return file
