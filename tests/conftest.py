"""What all tests share: a fixed seed, two threads, no knobs from the caller's environment."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
for _name in [name for name in os.environ if name.startswith("PYDISC_")]:
    del os.environ[_name]
os.environ["PYDISC_CACHE"] = "off"  # what is tested is compiled

import pytest
import torch


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none."""
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="no NVIDIA GPU here")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)
