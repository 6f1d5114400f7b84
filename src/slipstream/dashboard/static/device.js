"use strict";
// The page Device: a run on a real device while it goes on, and the pages that compare it with its simulation.
const devicePage = (() => {
  const { byId, make, fill, ask, address, figure } = tools;
  const MOST_POINTS = 600;
  let stream = null;

  async function open({ run: name }) {
    const { runs } = await ask("/api/runs");
    const live = runs.filter((one) => one.kind === "live"), chosen = name || (live[0] && live[0].name);
    fill(byId("device-run"), ...live.map((one) => make("option", { value: one.name, selected: one.name === chosen }, one.name)));
    const pages = runs.filter((one) => one.kind === "page").map((one) => make("li", {}, make("a", { href: address("/page", { name: one.name }) }, one.name)));
    fill(byId("pages"), ...(pages.length ? pages : [make("li", {}, "None yet.")]));
    byId("device-empty").hidden = Boolean(chosen);
    byId("device-body").hidden = !chosen;
    if (chosen) watch(chosen);
  }

  function close() {
    if (stream) stream.close();
    stream = null;
  }

  function watch(name) {
    close();
    const lines = [];
    stream = new EventSource(address("/api/live", { name }));
    stream.addEventListener("again", () => { lines.length = 0; });
    stream.onmessage = (event) => {
      lines.push(...JSON.parse(event.data));
      lines.splice(0, lines.length - MOST_POINTS);
      if (lines.length) draw(lines);
    };
  }

  function draw(lines) {
    const now = lines.at(-1), missed = now.released ? now.missed / now.released : 0;
    const tiles = { time: `${figure(now.time_s, 1)} s`, "streams busy": `${now.busy} of ${now.streams}`, released: now.released, finished: now.finished, missed: `${now.missed} (${(100 * missed).toFixed(1)}%)`, waiting: now.waiting };
    if (now.latency_ms !== null) tiles["mean latency lately"] = `${figure(now.latency_ms, 1)} ms`;
    fill(byId("device-tiles"), ...Object.entries(tiles).map(([label, value]) => make("div", { class: "tile" }, label, make("b", {}, String(value)))));
    fill(byId("device-tasks"), ...now.tasks.map((task) => make("tr", {}, make("th", { scope: "row" }, task.name), ...["released", "waiting", "running", "finished"].map((key) => make("td", {}, String(task[key]))))));
    const x = lines.map((line) => line.time_s);
    plot.show(byId("device-curve"), [
      { label: "jobs waiting", x, y: lines.map((line) => line.waiting), mark: "step" },
      { label: "jobs missed", x, y: lines.map((line) => line.missed), mark: "step" },
    ], { xTitle: "time (s)", yTitle: "jobs", label: "Jobs waiting and jobs missed over the time of the run" });
  }

  byId("device-run").addEventListener("change", (event) => { location.hash = address("device", { run: event.target.value }); });

  return { open, close };
})();
