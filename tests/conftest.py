"""Fixtures shared by all tests."""

from pathlib import Path

import pytest
from hypothesis import settings

# The first example of a test may compile a kernel, and a busy machine is no mistake of ours.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture
def shared_data() -> Path:
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the original project's data files are not beside this repository")
    return folder
