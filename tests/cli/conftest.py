"""The command line, called in this process: starting another costs a second each time."""

from __future__ import annotations

import sys

import pytest

from slipstream.cli.main import main


@pytest.fixture
def slipstream(monkeypatch, capsys, tmp_path):
    """Return a function that runs a command in an empty folder and returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["slipstream", *map(str, arguments)])
        with pytest.raises(SystemExit) as ending:
            main()
        captured = capsys.readouterr()
        return ending.value.code or 0, captured.out, captured.err

    return run
