"""How smoothly the dashboard replays a run of a million events: the first picture, and frames per second.

Records a run of edge/heavy that is long enough, starts `slipstream dashboard` over its folder, and opens the replay in
Chromium. The first picture is timed from the request of the page, while the server has not read the log yet. Then the
chart is panned and zoomed by pointer and wheel events, one in each frame, and the frames are counted: over the whole
run, where shares are drawn, and near, where jobs are.

    python benchmarks/replay_fps.py --json
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from slipstream.cli.common import describe_run
from slipstream.policies import find
from slipstream.scenario import dump, load
from slipstream.sim.eventlog import LogWriter
from slipstream.sim.simulator import Simulator

LEAST_EVENTS = 1_000_000
SECONDS_PER_GESTURE = 4
MOST_FIRST_S, LEAST_FPS = 2.0, 30.0

GESTURE = """
([kind, seconds]) => new Promise((done) => {
  const canvas = document.querySelector("#replay-gantt canvas"), box = canvas.getBoundingClientRect();
  const y = box.top + 30, times = [];
  const pointer = (name, x) => canvas.dispatchEvent(new PointerEvent(name, { clientX: x, clientY: y, bubbles: true }));
  const turned = { clientX: box.left + 700, clientY: y, ctrlKey: true, bubbles: true, cancelable: true };
  const wheel = (up) => canvas.dispatchEvent(new WheelEvent("wheel", { ...turned, deltaY: up ? -100 : 100 }));
  let n = 0;
  if (kind === "pan") pointer("pointerdown", box.left + 700);
  const frame = (now) => {
    times.push(now);
    n += 1;
    if (kind === "pan") pointer("pointermove", box.left + 700 + 300 * Math.sin(n / 20)); else wheel(n % 60 < 30);
    if (now - times[0] < 1000 * seconds) return requestAnimationFrame(frame);
    if (kind === "pan") pointer("pointerup", box.left);
    const gaps = times.slice(1).map((time, k) => time - times[k]).sort((a, b) => a - b);
    const fps = (1000 * gaps.length) / (times.at(-1) - times[0]);
    return done({ fps, p95_frame_ms: gaps[Math.floor(0.95 * gaps.length)] });
  };
  requestAnimationFrame(frame);
})
"""


def record(path: Path) -> int:
    """Record a run that is long enough; return its events."""
    data = json.loads(dump(load("edge/heavy")))
    data["horizon_ms"] = 1_700_000
    scenario: Any = load(data)
    writer = LogWriter(path, describe_run("edge/heavy", scenario, "edf-fit", 0))
    count = 0

    def keep(events: Any) -> None:
        nonlocal count
        count += len(events)
        writer.write(events)

    Simulator(scenario).play(find("edf-fit", "edge"), 0, sink=keep)
    writer.close()
    assert count >= LEAST_EVENTS, count
    return count


def measure(address: str, browser: str) -> dict[str, Any]:
    """Open the replay and move it about."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        window = engine.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = window.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        page.goto("about:blank")
        found: dict[str, Any] = {}
        began = perf_counter()
        page.goto(f"{address}#replay?run=run.parquet", wait_until="commit")
        page.wait_for_function("() => document.documentElement.dataset.ready === 'replay'", polling=20)
        found["first_picture_s"] = perf_counter() - began
        page.wait_for_selector("#candidates tr.chosen")
        for place, button in (("near", None), ("whole", "Whole run")):
            if button:
                page.get_by_role("button", name=button).click()
                page.get_by_role("button", name="Zoom in").click()  # so that the view can be panned
            for kind in ("pan", "zoom"):
                found[f"{kind}_{place}"] = page.evaluate(GESTURE, [kind, SECONDS_PER_GESTURE])
        window.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("there is no chromium on this machine", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        events = record(Path(folder) / "run.parquet")
        command = [str(Path(sys.executable).with_name("slipstream")), "dashboard", folder, "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                lines = iter(server.stdout.readline, "}\n")
                address = json.loads("".join(lines) + "}")["url"]
                result = {"events": events, **measure(address, browser)}
            finally:
                server.terminate()
    result["fps"] = min(result[key]["fps"] for key in ("pan_near", "zoom_near", "pan_whole", "zoom_whole"))
    result["passed"] = result["first_picture_s"] <= MOST_FIRST_S and result["fps"] >= LEAST_FPS
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(
            f"{events:,} events: first picture {result['first_picture_s']:.2f} s, at least {result['fps']:.0f} frames/s"
        )
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
