"""What is shipped: wheel and source archive hold all that runs and nothing else, and run without the extras."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both from a copy of the sources, so that the tree stays clean; return their paths."""
    pytest.importorskip("setuptools", "77", reason="the build needs a setuptools that knows our metadata")
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    clean = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=clean)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    found = []
    for what in ("build_wheel", "build_sdist"):
        command = [sys.executable, "-W", "ignore", "-c", BUILD, what, str(out)]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        found.append(out / done.stdout.split()[-1])
    return found


def sources():
    package = ROOT / "src" / "slipstream"
    found = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    return {name for name in found if "__pycache__" not in name}


def test_the_wheel_holds_every_file_of_the_package_with_its_types(built):
    names = set(zipfile.ZipFile(built[0]).namelist())
    assert {name for name in names if ".dist-info/" not in name} == sources()
    assert "slipstream/py.typed" in names


def test_the_source_archive_holds_them_too(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in sources()} <= names
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["wheel", "sdist"])
def test_the_demo_runs_in_an_empty_environment_without_extras(built, which, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", built[which]]
    done = subprocess.run(install, capture_output=True, text=True, timeout=900)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("there is no package index to install from")
    assert done.returncode == 0, done.stderr
    code = "import torch"
    assert subprocess.run([python, "-c", code], capture_output=True, cwd=tmp_path, env={}).returncode == 1
    command = [python.with_name("slipstream"), "demo", "--no-open"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Left out: ") == 2
    assert (tmp_path / "slipstream-demo" / "report.html").is_file()
