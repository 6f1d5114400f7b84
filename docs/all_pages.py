"""Take a screenshot of every page of every family, to look at before a release.

    python docs/all_pages.py                      # every family, into all-pages/
    python docs/all_pages.py --families dag,edge --out pictures

Each page of reports and dashboard is taken in a light and a dark colour scheme, and 390 pixels wide. `index.html` in
the folder shows all of them. Needs the extra `dashboard` and Chromium. The pictures are not part of the documentation.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

from screenshots import opened, serving, slipstream

SCENARIOS = {
    "edge": "edge/heavy",
    "dag": "dag/small",
    "taskgraph": "taskgraph/tight-memory",
    "serving": "serving/small",
    "cluster": "cluster/bursty",
}
"""The scenario of each family's pictures; families that are not named have their `tiny` one."""
MODES = {"light": (1280, "light"), "dark": (1280, "dark"), "narrow": (390, "light")}
PAGES = {
    "runs": "#runs",
    "training": "#runs?training=trained",
    "compare": "#compare",
    "compare-runs": "#compare?run=first.parquet&run=second.parquet",
    "compare-policies": "#compare?run=policies.json",
    "replay": "#replay?run=first.parquet",
    "try": "#try",
    "device": "#device",
    "device-run": "#device?run=real.parquet",
}
"""Addresses of the dashboard's pages."""
TALLEST = 6000
"""Pixels above which a page is cut off."""


def main() -> None:
    """Record runs of each family and take the pictures of their pages."""
    from slipstream.families.contract import FAMILIES

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--families", default=",".join(FAMILIES), help="families, separated by commas")
    parser.add_argument("--out", type=Path, default=Path("all-pages"), help="folder of the pictures")
    parser.add_argument(
        "--training-steps", type=int, default=4000, help="decisions that the short training learns from"
    )
    parser.add_argument("--keep-runs", action="store_true", help="take pictures of the runs that are in the folder")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for family in asked.families.split(","):
        runs = asked.out / f"{family}-runs"
        if not (asked.keep_runs and runs.is_dir()):
            shutil.rmtree(runs, ignore_errors=True)
            runs.mkdir()
            record(runs, SCENARIOS.get(family, f"{family}/tiny"), asked.training_steps)
        photograph(runs, asked.out, family)
    write_index(asked.out)


def record(folder: Path, scenario: str, training_steps: int) -> None:
    """Record runs, a comparison and a training in `folder`, and write a report of them."""
    from slipstream.families.contract import FAMILIES
    from slipstream.policies import names

    family = scenario.partition("/")[0]
    usual = FAMILIES[family].default_policy
    other = next(name for name in names(family) if name not in (usual, "random"))
    for name, policy in (("first", usual), ("second", other)):
        slipstream(folder, "run", scenario, "--policy", policy, "--seed", "7", "--log", f"{name}.parquet")
    as_real(folder / "first.parquet", folder / "real.parquet")
    compared = slipstream(folder, "compare", scenario, "--policies", f"{usual},{other},random", "-n", "5", "--json")
    (folder / "policies.json").write_text(compared, encoding="utf-8")
    slipstream(folder, "train", scenario, "--steps", str(training_steps), "--out", "trained")
    slipstream(folder, "report", "first.parquet", "second.parquet", "--training", "trained", "--why", "3")


def as_real(source: Path, target: Path) -> None:
    """Copy a simulated run to `target` under the label of a real one, for the pages that show such runs."""
    from slipstream.sim.eventlog import LogWriter, read

    events, about = read(source)
    writer = LogWriter(target, {**about, "device": "cpu", "hardware": "a machine that was not there, for this picture"})
    writer.write(events)
    writer.close()


def photograph(runs: Path, out: Path, family: str) -> None:
    """Take a picture of the report and of each page of the dashboard in each mode."""
    with serving(runs) as address:
        for mode, (width, scheme) in MODES.items():
            with opened(width=width, height=900, scheme=scheme) as page:
                page.goto((runs / "report.html").resolve().as_uri())
                page.wait_for_timeout(1500)
                take(page, out / f"{family}-report-{mode}.png")
                for name, place in PAGES.items():
                    page.goto("about:blank")
                    page.goto(address.rstrip("/") + "/" + place)
                    ready = re.match(r"#(\w+)", place)
                    assert ready is not None
                    page.wait_for_function("name => document.documentElement.dataset.ready === name", arg=ready[1])
                    page.wait_for_load_state("networkidle")
                    page.wait_for_timeout(1500)
                    take(page, out / f"{family}-{name}-{mode}.png")


def take(page: Any, file: Path) -> None:
    """Write the whole page, up to a height that can be looked at."""
    height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
    width = page.viewport_size["width"]
    page.screenshot(path=file, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})


def write_index(out: Path) -> None:
    """Write `index.html`: a row per page, a column per mode."""
    rows = []
    for light in sorted(out.glob("*-light.png")):
        name = light.name.removesuffix("-light.png")
        files = {mode: f"{name}-{mode}.png" for mode in MODES}
        cells = "".join(
            f'<td><a href="{file}"><img src="{file}" loading="lazy" alt="{name}, {mode}"></a></td>'
            for mode, file in files.items()
        )
        rows.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
    style = "img{max-width:26rem;max-height:26rem;object-fit:cover;object-position:top}th{text-align:left}"
    page = f"<!doctype html><meta charset=utf-8><title>All pages</title><style>{style}</style>"
    (out / "index.html").write_text(f"{page}<table>{''.join(rows)}</table>\n", encoding="utf-8")
    print(json.dumps({"pictures": len(rows) * len(MODES), "index": str(out / "index.html")}))


if __name__ == "__main__":
    main()
