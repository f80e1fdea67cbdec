"""Stage files and warnings."""

import logging

from pydisc.support.dump import write_stage
from pydisc.support.log import warn_once


def test_stage_files_sort_in_order(tmp_path):
    folder = tmp_path / "new" / "folder"
    write_stage(folder, 1, "hlo", "module {}")
    write_stage(folder, 0, "trace.txt", "x\n")
    assert [file.name for file in sorted(folder.iterdir())] == ["00_trace.txt", "01_hlo.mlir"]
    assert (folder / "01_hlo.mlir").read_text() == "module {}\n"


def test_a_warning_is_said_once(caplog):
    with caplog.at_level(logging.WARNING, logger="pydisc"):
        assert warn_once(("test", "once"), "only this")
        assert not warn_once(("test", "once"), "only this")
    assert caplog.messages == ["only this"]
