"use strict";
// The page Runs: what is in the folder, and the curve of a training while it trains.
const runsPage = (() => {
  const { byId, make, fill, ask, address, attempt, figure, words } = tools;
  const chosen = new Set();
  const metrics = new Map(); // what is known of each run, by name and time of change
  let listed = [], stream = null, looking = null;

  async function open({ training }) {
    await load();
    byId("training").hidden = !training;
    if (training) watch(training);
  }

  function close() {
    if (stream) stream.close();
    stream = null;
  }

  async function load() {
    const answer = await ask("/api/runs");
    listed = answer.runs.filter((run) => run.kind !== "live"); // those are on the page Device
    draw(answer.more);
  }

  function draw(more = 0) {
    const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = listed.filter((run) => wanted.every((word) => textOf(run).includes(word)));
    const count = shown.length === listed.length ? `${listed.length}` : `${shown.length} of ${listed.length}`;
    byId("runs-count").textContent = listed.length ? `${count} runs, newest first${more ? `; ${more} more are not listed` : ""}.`
      : "This folder holds no runs yet. Record one with `slipstream run … --log`, or go to Try it.";
    if (looking) looking.disconnect();
    looking = new IntersectionObserver((rows) => rows.filter((row) => row.isIntersecting).forEach((row) => { looking.unobserve(row.target); measure(row.target); }));
    fill(document.querySelector("#runs-table tbody"), ...shown.map(rowOf));
  }

  const textOf = (run) => [run.name, run.kind, run.scenario, run.policy, run.seed === undefined ? "" : `seed ${run.seed}`].join(" ").toLowerCase();

  function rowOf(run) {
    const comparable = run.kind === "run" || run.kind === "comparison";
    const box = comparable ? make("input", { type: "checkbox", "aria-label": `Choose ${run.name}`, onchange: (event) => choose(run.name, event.target.checked) }) : "";
    if (comparable) box.checked = chosen.has(run.name);
    const badge = run.kind === "run" ? null : make("span", { class: "badge" }, run.kind);
    const seeds = run.kind === "comparison" ? `${run.seed} to ${run.seed + run.episodes - 1}` : run.seed ?? "";
    const row = make("tr", {}, make("td", {}, box), make("td", {}, run.scenario || "", badge), make("td", {}, run.policy || ""), make("td", {}, String(seeds)),
      make("td", { class: "wide" }, run.error || ""), make("td", { class: "file" }, link(run)), make("td", {}, new Date(1000 * run.modified).toLocaleString()));
    row.run = run;
    if (run.kind === "run") looking.observe(row);
    return row;
  }

  function link(run) {
    if (run.kind === "unreadable") return make("span", {}, run.name);
    const targets = { run: address("#replay", { run: run.name }), training: address("#runs", { training: run.name }), comparison: address("#compare", { run: run.name }) };
    return make("a", { href: targets[run.kind] || address("/page", { name: run.name }) }, run.name);
  }

  // Metrics need the whole log, so they are asked for when a row comes into sight.
  async function measure(row) {
    const key = `${row.run.name} ${row.run.modified}`;
    try {
      if (!metrics.has(key)) metrics.set(key, await ask("/api/metrics", { run: row.run.name }));
      const found = metrics.get(key);
      row.cells[4].textContent = found.headline.map((name) => `${words(name)} ${figure(found.metrics[name])}`).join(", ");
    } catch (error) {
      row.cells[4].textContent = error.message;
    }
  }

  function choose(name, wanted) {
    if (wanted) chosen.add(name); else chosen.delete(name);
    byId("compare-chosen").disabled = !chosen.size;
  }

  // Server-sent events: what is there already comes first, then every evaluation as it is made.
  function watch(name) {
    close();
    const lines = [], about = listed.find((run) => run.name === name);
    byId("training-title").textContent = `Training ${name}`;
    byId("training-note").textContent = about ? `${about.scenario}, ${about.policy}, seed ${about.seed}. ${about.command}` : "";
    stream = new EventSource(address("/api/live", { name }));
    stream.addEventListener("again", () => { lines.length = 0; });
    stream.onmessage = (event) => { lines.push(...JSON.parse(event.data)); curve(lines); };
    stream.onerror = () => { if (stream && stream.readyState === EventSource.CLOSED) tools.tell(`${name}: cannot be followed.`); };
    curve(lines);
  }

  function curve(lines) {
    const x = lines.map((line) => line.steps);
    plot.show(byId("training-curve"), [
      { label: "policy in training", x, y: lines.map((line) => line.reward), mark: "line" },
      { label: "best heuristic", x, y: lines.map((line) => line.heuristic_reward), mark: "line" },
    ], { xTitle: "steps", yTitle: "reward on held-out seeds", label: "Reward of the policy in training, and of the best heuristic, over the steps of training" });
    const last = lines.at(-1) || {};
    const rows = Object.entries(last).map(([key, value]) => make("tr", {}, make("th", { scope: "row" }, words(key)), make("td", {}, typeof value === "number" ? figure(value, Number.isInteger(value) ? 0 : undefined) : String(value))));
    fill(byId("training-figures"), ...rows);
  }

  byId("search").addEventListener("input", () => draw());
  byId("refresh").addEventListener("click", () => attempt(load));
  byId("compare-chosen").addEventListener("click", () => { location.hash = address("compare", { run: [...chosen] }); });

  return { open, close };
})();
