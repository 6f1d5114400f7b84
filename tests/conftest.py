"""Fixtures shared by all tests."""

from pathlib import Path

import pytest


@pytest.fixture
def shared_data() -> Path:
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the original project's data files are not beside this repository")
    return folder
