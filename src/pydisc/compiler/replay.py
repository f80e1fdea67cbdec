"""Repro folders: everything to run a failed compile again."""

import os
import platform
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pydisc.support import knobs

_README = """A compile that failed. Run it again with:

    pydisc replay {folder}

model.pt      the model and its arguments (torch.save, pickled: needs the model's own code)
error.txt     the error with its traceback
environment.txt  versions and knobs
"""


def write_repro(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException
) -> Path:
    """Write a repro folder; what cannot be written is said in `error.txt` instead of raised."""
    parent = knobs.current().repro or None
    if parent:
        Path(parent).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="pydisc-repro-", dir=parent))
    text = "".join(traceback.format_exception(error))
    try:
        torch.save({"model": model, "args": args, "kwargs": kwargs}, folder / "model.pt")
    except Exception as failure:  # any object of the user's may refuse to be pickled
        (folder / "model.pt").unlink(missing_ok=True)
        text += f"\nthe model could not be saved: {type(failure).__name__}: {failure}\n"
    (folder / "error.txt").write_text(text, encoding="utf-8")
    environment = [
        f"python {platform.python_version()} on {platform.platform()}",
        f"torch {torch.__version__}",
        *(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("PYDISC_")),
    ]
    (folder / "environment.txt").write_text("\n".join(environment) + "\n", encoding="utf-8")
    (folder / "README.txt").write_text(_README.format(folder=folder), encoding="utf-8")
    return folder


def load_repro(directory: Path) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The model and arguments of a repro folder. Unpickles: open only folders that you trust."""
    file = directory / "model.pt"
    if not file.is_file():
        raise ValueError(
            f"{directory} holds no model.pt: the model could not be saved, see error.txt"
        )
    saved = torch.load(file, weights_only=False)
    return saved["model"], saved["args"], saved["kwargs"]
