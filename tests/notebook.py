"""Executes the notebook of the examples; as a program, keeps what its cells show (`make notebook`)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "quickstart.ipynb"


def execute(folder: Path) -> nbformat.NotebookNode:
    """Return the notebook, executed in `folder`, with figures as data instead of scripts that draw them."""
    os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, resources=resources, record_timing=False).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # not the version of this machine
    return notebook


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(execute(Path(folder)), NOTEBOOK)
