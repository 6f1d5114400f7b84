"""Take the pictures of reports, the dashboard, environments and animations that the documentation shows.

    python docs/screenshots.py                       # all of them
    python docs/screenshots.py report dashboard      # some of: report, dashboard, environment, animation

Needs the extras `dashboard` and `render`, and Chromium. Runs are recorded in a temporary folder.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).resolve().parent / "images"
SLIPSTREAM = str(Path(sys.executable).with_name("slipstream"))
SCENARIO, SEED = "edge/heavy", "7"
COMPARED = "edf,edf-fit,edf-degrade,lookahead,random"


def main() -> None:
    """Take the pictures that the command line names."""
    known = {"report": report, "dashboard": dashboard, "environment": environment, "animation": animation}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for subject in sys.argv[1:] or known:
            known[subject](folder)


def slipstream(folder: Path, *words: str) -> str:
    """Run a command in `folder`; return its output."""
    return subprocess.run([SLIPSTREAM, *words], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def record(folder: Path) -> list[str]:
    """Record one run of each of two policies on the same arrivals; return the names of the logs."""
    logs = []
    for policy in ("edf-fit", "lookahead"):
        logs.append(f"{policy}.parquet")
        slipstream(folder, "run", SCENARIO, "--policy", policy, "--seed", SEED, "--log", logs[-1])
    return logs


def report(folder: Path) -> None:
    """Write `report-gantt.png`: the schedules of two policies side by side."""
    slipstream(folder, "report", *record(folder), "--out", "report.html")
    with opened(width=1060, height=860) as page:
        page.goto((folder / "report.html").as_uri())
        page.wait_for_selector("canvas, svg")
        page.wait_for_timeout(1000)
        page.get_by_role("heading", name=re.compile("Schedule|Who ran when")).first.evaluate("e => e.scrollIntoView()")
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / "report-gantt.png")


def dashboard(folder: Path) -> None:
    """Write `dashboard-replay.png` and `dashboard-compare.png`."""
    runs = folder / "runs"
    runs.mkdir()
    record(runs)
    compared = slipstream(runs, "compare", SCENARIO, "--policies", COMPARED, "--episodes", "10", "--json")
    (runs / "policies.json").write_text(compared, encoding="utf-8")
    with serving(runs) as address, opened(width=1100, height=1150) as page:
        for place, image in (("#replay?run=edf-fit.parquet", "replay"), ("#compare?run=policies.json", "compare")):
            page.goto(address + place)
            page.wait_for_function("name => document.documentElement.dataset.ready === name", arg=image)
            page.wait_for_load_state("networkidle")
            if image == "replay":
                page.fill("#cursor", "120")
                page.press("#cursor", "Enter")
                page.wait_for_selector("#candidates tr.chosen", timeout=120_000)
            page.wait_for_timeout(1500)
            page.screenshot(path=IMAGES / f"dashboard-{image}.png")


def environment(folder: Path) -> None:
    """Write `rgb-array.png`: what `render()` of an environment returns."""
    import gymnasium
    from PIL import Image

    import slipstream  # noqa: F401 (registers the environments)

    env = gymnasium.make("slipstream/Edge-v0", scenario="edge/drone", render_mode="rgb_array")
    _, info = env.reset(seed=7)
    env.action_space.seed(7)
    for _ in range(36):
        info = env.step(env.action_space.sample(mask=info["action_mask"]))[4]
    picture: Any = env.render()
    Image.fromarray(picture).quantize(64).save(IMAGES / "rgb-array.png", optimize=True)


def animation(folder: Path) -> None:
    """Write `dag-gantt.png`: the last frame of the animation of a run."""
    from PIL import Image

    slipstream(folder, "run", "dag/small", "--policy", "srpt", "--seed", "7", "--gif", "small.gif")
    with Image.open(folder / "small.gif") as film:
        film.seek(getattr(film, "n_frames", 1) - 1)
        film.convert("RGB").quantize(64).save(IMAGES / "dag-gantt.png", optimize=True)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the dashboard of a folder; yield its address."""
    command = [SLIPSTREAM, "dashboard", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if found := re.search(r"http://\S+", line):
                yield found[0].rstrip(".,)")
                break
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)


@contextmanager
def opened(width: int, height: int, scheme: str = "light") -> Iterator[Any]:
    """Yield a page of a new browser with a colour scheme."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = engine.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.set_default_timeout(180_000)
        yield page
        browser.close()


if __name__ == "__main__":
    main()
