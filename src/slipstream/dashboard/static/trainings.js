"use strict";
// Training curves on the page Runs: any number of trainings, one chart per scenario, drawn while they train.
const trainings = (() => {
  const { byId, make, fill, address, value, words, figure, algorithm } = tools;
  const REDRAW_MS = 150;
  let streams = [], shown = [], timer = null;

  async function open(names, listed) {
    close();
    const known = names.filter((name) => listed.some((run) => run.name === name && run.kind === "training"));
    const gone = names.filter((name) => !known.includes(name));
    if (gone.length) tools.tell(`${gone.join(", ")}: no such training in this folder.`);
    byId("training").hidden = !known.length;
    if (!known.length) return;
    shown = known.map((name) => ({ name, about: listed.find((run) => run.name === name), lines: [] }));
    byId("training-title").textContent = known.length === 1 ? `Training: ${known[0]}` : `${known.length} trainings`;
    fill(byId("training-charts"), ...scenarios().map((scenario) => make("figure", {}, make("figcaption", {}, scenario), make("div", { "data-scenario": scenario }))));
    const first = shown.map((training) => new Promise((arrived) => { follow(training, arrived); }));
    await Promise.race([Promise.all(first), new Promise((passed) => { setTimeout(passed, 1500); })]);
    await draw();
    byId("training").scrollIntoView({ block: "nearest" });
  }

  function close() {
    streams.forEach((stream) => stream.close());
    streams = [];
    clearTimeout(timer);
    timer = null;
  }

  const scenarios = () => [...new Set(shown.map((training) => training.about.scenario))];

  // Server-sent events: existing evaluations come first, then each new one.
  function follow(training, arrived) {
    const stream = new EventSource(address("/api/live", { name: training.name }));
    stream.addEventListener("again", () => { training.lines = []; });
    stream.onmessage = (event) => { training.lines.push(...JSON.parse(event.data)); arrived(); later(); };
    stream.onerror = () => { arrived(); if (stream.readyState === EventSource.CLOSED && streams.includes(stream)) tools.tell(`${training.name}: the connection was closed. Refresh to follow it again.`); };
    streams.push(stream);
  }

  function later() {
    timer ||= setTimeout(() => { timer = null; draw(); }, REDRAW_MS);
  }

  // Exponential moving average, corrected for its start.
  function smoothed(values, weight) {
    let sum = 0, total = 0;
    return values.map((one) => { sum = weight * sum + (1 - weight) * one; total = weight * total + (1 - weight); return sum / total; });
  }

  async function draw() {
    const axis = byId("training-x").value, weight = Number(byId("smoothing").value);
    byId("smoothing-value").textContent = weight.toFixed(2);
    const label = (training) => (training.about.policy ? `${training.name} (${algorithm(training.about.policy)}, seed ${training.about.seed ?? "–"})` : training.name);
    const charts = scenarios().map((scenario) => {
      const series = [], heuristics = new Map();
      shown.forEach((training, index) => {
        if (training.about.scenario !== scenario) return;
        const lines = training.lines.filter((line) => typeof line.reward === "number"), x = lines.map((line) => line[axis]), y = lines.map((line) => line.reward);
        if (weight) series.push({ label: label(training), x, y, mark: "line", colour: index, faint: true, hidden: true });
        series.push({ label: label(training), x, y: smoothed(y, weight), mark: "line", colour: index });
        lines.filter((line) => typeof line.heuristic_reward === "number").forEach((line) => {
          const name = `best heuristic${line.heuristic ? `, ${line.heuristic}` : ""}: ${value(line.heuristic_reward)}`, before = heuristics.get(name);
          heuristics.set(name, { y: line.heuristic_reward, from: Math.min(before ? before.from : Infinity, line[axis]), to: Math.max(before ? before.to : -Infinity, line[axis]) });
        });
      });
      heuristics.forEach((line, name) => series.push({ label: name, x: [Math.min(line.from, 0), line.to], y: [line.y, line.y], mark: "line", colour: -1, quiet: true }));
      const holder = [...byId("training-charts").querySelectorAll("[data-scenario]")].find((one) => one.dataset.scenario === scenario);
      return plot.show(holder, series, { xTitle: axis === "steps" ? "training steps" : "training time (s)", yTitle: "reward on held-out seeds", label: `${scenario}: reward of each training, and of the best heuristic`, unified: true });
    });
    table();
    await Promise.all(charts);
  }

  function table() {
    const keys = [...new Set(shown.flatMap((training) => Object.keys(training.lines.at(-1) || {})))];
    const text = (one) => (typeof one === "number" ? figure(one, Number.isInteger(one) ? 0 : undefined) : one === undefined ? "–" : String(one));
    fill(byId("training-head"), make("tr", {}, make("th", { scope: "col" }, "latest evaluation"), ...shown.map((training) => make("th", { scope: "col" }, training.name))));
    fill(byId("training-figures"), ...keys.map((key) => make("tr", {}, make("th", { scope: "row" }, words(key)), ...shown.map((training) => make("td", {}, text((training.lines.at(-1) || {})[key]))))));
    const commands = shown.filter((training) => training.about.command).map((training) => make("p", { class: "note" }, `${training.name}: `, make("code", {}, training.about.command)));
    fill(byId("training-note"), ...commands);
  }

  byId("training-x").addEventListener("change", draw);
  byId("smoothing").addEventListener("input", later);
  byId("training-close").addEventListener("click", () => { location.hash = "runs"; });

  return { open, close };
})();
