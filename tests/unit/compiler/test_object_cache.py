"""The cache on disk: used again, checked, bounded, and never in the way."""

import os
from pathlib import Path

import pytest

from pydisc.codegen.common.assembly_text import Text
from pydisc.codegen.cpu.host_target import detect_cpu_target
from pydisc.compiler import object_cache
from pydisc.compiler.object_cache import cache_folder, cached_object
from pydisc.support import knobs
from pydisc.targets.cpu import AVX2

TARGET = detect_cpu_target()


def module(name: str = "f") -> str:
    text = Text(TARGET.vector_lanes_f32)
    with text.function(name, [("n", "i64")]):
        pass
    return text.module()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were really compiled."""
    texts: list[str] = []

    def compile_to_object(text: str) -> bytes:
        texts.append(text)
        return text.encode()

    monkeypatch.setattr(object_cache, "compile_to_object", compile_to_object)
    return texts


def test_second_time_from_disk(tmp_path: Path, compiled: list[str]) -> None:
    with knobs.scope(cache=str(tmp_path / "a" / "b")):
        first = cached_object(module(), TARGET)
        assert cached_object(module(), TARGET) == first
        assert len(compiled) == 1
        cached_object(module("g"), TARGET)
        cached_object(module(), AVX2)
    assert len(compiled) == 3


def test_off(tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with knobs.scope(cache="off"):
        cached_object(module(), TARGET)
    assert not list(tmp_path.iterdir())


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with knobs.scope(cache=""):
        assert cache_folder() == tmp_path / "pydisc"


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 200])
def test_damaged_entry(tmp_path: Path, compiled: list[str], damage: bytes) -> None:
    with knobs.scope(cache=str(tmp_path)):
        first = cached_object(module(), TARGET)
        (entry,) = tmp_path.glob("*.o")
        entry.write_bytes(damage)
        assert cached_object(module(), TARGET) == first
        assert len(compiled) == 2
        assert cached_object(module(), TARGET) == first
    assert len(compiled) == 2


def test_folder_that_cannot_be_made(tmp_path: Path, compiled: list[str]) -> None:
    (tmp_path / "file").write_text("")
    with knobs.scope(cache=str(tmp_path / "file")):
        assert cached_object(module(), TARGET)


def test_least_recently_used_goes(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with knobs.scope(cache=str(tmp_path)):
        for number, name in enumerate(("a", "b", "c")):
            cached_object(module(name), TARGET)
            for entry in tmp_path.glob("*.o"):
                if entry.stat().st_mtime > 1e6:
                    os.utime(entry, (number, number))
        size = sum(e.stat().st_size for e in tmp_path.glob("*.o"))
        monkeypatch.setattr(object_cache, "_LIMIT", size)
        cached_object(module("d"), TARGET)
        left = sorted(e.stat().st_mtime for e in tmp_path.glob("*.o"))
    assert left[0] == 1
    assert len(left) == 3
