"""Fixtures shared by all tests."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from slipstream.families.contract import FAMILIES

# The first example of a test may compile a kernel, and a busy machine is no mistake of ours.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


PROCESSES = ("test_every_block_of_a_page_runs",)
"""Tests whose cases run in processes of their own, for a minute at times: they share nothing with each other."""


class FamilyScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of a file, in files for all families those of each, on one worker: it compiles for them once.

    What has most tests comes first, so cases that stand alone come last: they fill up whichever worker is free.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        if test.startswith(PROCESSES):
            return nodeid
        parameters = test.partition("[")[2]
        return f"{file} {next((name for name in FAMILIES if parameters.startswith(name)), '')}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FamilyScheduling:
    return FamilyScheduling(config, log)


@pytest.fixture
def shared_data() -> Path:
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the original project's data files are not beside this repository")
    return folder
