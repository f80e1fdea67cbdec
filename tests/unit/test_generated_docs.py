"""The pages made from code are those that the code makes now."""

import importlib.util
from pathlib import Path

import pytest

_DOCS = Path(__file__).parents[2] / "docs"


def _load_generator():
    spec = importlib.util.spec_from_file_location("generate", _DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_PAGES = _load_generator().PAGES


@pytest.mark.parametrize("page", _PAGES)
def test_page_is_up_to_date(page):
    assert (_DOCS / page).read_text(encoding="utf-8") == _PAGES[page](), "run: make docs"
