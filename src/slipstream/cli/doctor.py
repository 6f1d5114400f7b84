"""`slipstream doctor`: what is installed here, what is missing, and what that would add; self-tests of devices."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import typer

from slipstream.cli.common import JsonOption, console, errors, print_json
from slipstream.cli.help_text import DEVICE
from slipstream.reports.terminal.plain_table import PlainTable

EXTRAS = {
    "render": "pictures and animations of runs",
    "figures": "still figures of results: `bench suite --picture`, `library tradeoff --out`, `sweep`",
    "device": "running models on this machine: `profile`, `execute`, `validate`",
    "learn": "training: `train`, `sweep`",
    "notebook": "results as pandas data frames, and figures in notebooks",
    "dashboard": "the dashboard of a folder of runs: `dashboard`",
    "interop": "training with other libraries: Stable-Baselines3, TorchRL",
    "rllib": "training with RLlib, in an environment of its own",
}
"""What each extra adds; which packages that takes, the package itself says."""

NEEDED_FILES, NEEDED_MB = 1100, 40
"""Compiled code of all families, as measured: to play episodes and to step environments of each."""


DeviceOption = Annotated[
    Literal["cpu", "cuda", "onnxruntime"] | None,
    typer.Option(
        "--device", "-d", help="Test this device instead, for up to a minute; print a page.", rich_help_panel=DEVICE
    ),
]


def doctor(device: DeviceOption = None, as_json: JsonOption = False) -> None:
    """Print versions, devices and caches, and what each missing extra would add; with --device, test that device.

    The self-test ends with 0 if all checks passed, with 1 if one failed, and with 2 if there is no such device.

    Example: slipstream doctor --device cuda
    """
    if device is not None:
        _test_device(device, as_json)
        return
    found = {"versions": _versions(), "device": _device(), "cache": _cache(), "extras": _extras()}
    if as_json:
        print_json(found)
        return
    table = PlainTable("", "", box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, text in {**found["versions"], **found["device"]}.items():
        table.add_row(name, str(text))
    cache = found["cache"]
    table.add_row("compiled kernels", cache["folder"])
    table.add_row("", _cache_statement(cache))
    console.print(table, highlight=False)
    if not cache["files"]:
        console.print("No kernels are compiled yet: the first run of each family takes up to a minute longer.")
    for name, extra in found["extras"].items():
        if extra["missing"]:
            absent = ", ".join(extra["missing"])
            console.print(f"Missing: {name}, for {extra['adds']} ({absent}).", markup=False, soft_wrap=True)
            console.print(f"         pip install 'slipstream[{name}]'", markup=False, highlight=False)
        else:
            console.print(f"Installed: {name}, for {extra['adds']}.", markup=False, soft_wrap=True)


def _test_device(device: str, as_json: bool) -> None:
    """Print the page of the device's self-test; exit with 1 if a check failed."""
    from slipstream import __version__
    from slipstream.device.measurement.selftest import run_selftest

    with errors.status(f"testing {device}"):
        page = run_selftest(device)
    versions = {"slipstream": __version__, "python": platform.python_version(), "platform": platform.platform()}
    if as_json:
        print_json({**versions, **page.to_dict()})
    else:
        print("\n".join(page.lines(versions)))
    if not page.passed:
        raise typer.Exit(1)


def _versions() -> dict[str, str]:
    from slipstream import __version__

    packages, _ = _requirements()
    return {"slipstream": __version__, "python": platform.python_version(), **{p: _version(p) or "" for p in packages}}


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Return the packages that are always needed, and those of each extra."""
    core: list[str] = []
    extras: dict[str, list[str]] = {name: [] for name in EXTRAS}
    try:
        lines = requires("slipstream") or []
    except PackageNotFoundError:  # a source tree that was never installed
        lines = []
    for line in lines:
        name = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if extra is None:
            core.append(name)
        elif extra[1] in extras:
            extras[extra[1]].append(name)
    return core, extras


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device() -> dict[str, Any]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, Any] = {"platform": platform.platform(), "cpu cores": count, "cuda": "torch is not installed"}
    if find_spec("torch") is not None:
        import torch

        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        found["cuda"] = ", ".join(names) or "no device"
    return found


def _cache() -> dict[str, Any]:
    from slipstream.jit.cache_folder import cache_folder, stored_sizes

    sizes = stored_sizes()
    files, size = sizes.get(cache_folder().name, (0, 0))
    return {
        "folder": str(cache_folder()),
        "files": files,
        "megabytes": round(size / 1e6, 1),
        "versions": len(sizes),
        "megabytes_of_all_versions": round(sum(size for _, size in sizes.values()) / 1e6, 1),
        "files_needed_by_all_families": NEEDED_FILES,
        "megabytes_needed_by_all_families": NEEDED_MB,
    }


def _cache_statement(cache: dict[str, Any]) -> str:
    """Return how much compiled code is stored, and how much there will be when all families were used."""
    needed = f"{cache['files_needed_by_all_families']} files, {cache['megabytes_needed_by_all_families']} MB"
    stored = f"{cache['files']} files, {cache['megabytes']} MB (all families together need about {needed})"
    return f"{stored}; {cache['megabytes_of_all_versions']} MB with those of other versions"


def _extras() -> dict[str, dict[str, Any]]:
    _, packages = _requirements()
    return {
        name: {"adds": adds, "missing": [package for package in packages[name] if _version(package) is None]}
        for name, adds in EXTRAS.items()
        if packages[name]
    }
