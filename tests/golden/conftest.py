"""Collects golden IR tests: each `.mlir` file here with a RUN line is a test.

    // RUN: pydisc opt %s --passes=simplify-layout | filecheck %s

The command runs in this process; what it prints is matched with the CHECK lines of the file.
"""

import io
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

from pydisc.cli.main import main

_MARK = "// RUN:"


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    """Take every .mlir file."""
    if file_path.suffix == ".mlir":
        return GoldenFile.from_parent(parent, path=file_path)
    return None


class GoldenFile(pytest.File):
    """A file with RUN lines."""

    def collect(self) -> Iterator[pytest.Item]:
        """One test for each RUN line."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        runs = [line.partition(_MARK)[2].strip() for line in lines if _MARK in line]
        if not runs:
            raise self.CollectError(f"{self.path} has no line `{_MARK} pydisc ... | filecheck %s`")
        for index, run in enumerate(runs):
            name = self.path.stem if len(runs) == 1 else f"{self.path.stem}-{index}"
            yield GoldenRun.from_parent(self, name=name, command=run)


class GoldenRun(pytest.Item):
    """One RUN line."""

    def __init__(self, *, command: str, **more) -> None:
        super().__init__(**more)
        self.command = command

    def runtest(self) -> None:
        """Run the command, match its output."""
        producer, _, checker = self.command.partition("|")
        program, *arguments = [word.replace("%s", str(self.path)) for word in shlex.split(producer)]
        prefixes = _check_prefixes(shlex.split(checker))
        if program != "pydisc" or prefixes is None:
            raise GoldenError(f"not of the form `pydisc ... | filecheck %s`: {self.command}")
        printed, complaints = io.StringIO(), io.StringIO()
        with redirect_stdout(printed), redirect_stderr(complaints):
            code = main(arguments)
        if code != 0:
            raise GoldenError(f"{self.command}\nended with {code}: {complaints.getvalue()}")
        self._match(printed.getvalue(), prefixes)

    def _match(self, text: str, prefixes: str) -> None:
        options = Options(match_filename=str(self.path), check_prefixes=prefixes)  # pyright: ignore
        complaints = io.StringIO()
        with redirect_stderr(complaints):
            matcher = Matcher(options, FInput("<output>", text), Parser.from_opts(options))
            code = matcher.run()
        if code != 0:
            raise GoldenError(f"{complaints.getvalue()}\n--- output of {self.command}\n{text}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style=None):
        """What filecheck said, without the Python stack."""
        if isinstance(excinfo.value, GoldenError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test is."""
        return self.path, 0, f"golden: {self.name}"


class GoldenError(Exception):
    """The output is not what the CHECK lines say."""


def _check_prefixes(words: list[str]) -> str | None:
    """The prefixes of a `filecheck %s [--check-prefix=X]` command, None if it is something else."""
    if not words or words[0] != "filecheck" or "%s" not in words:
        return None
    for word in words[1:]:
        for option in ("--check-prefix=", "--check-prefixes="):
            if word.startswith(option):
                return word.removeprefix(option)
    return "CHECK"
