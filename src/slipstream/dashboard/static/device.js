"use strict";
// The page Device: runs on real hardware beside their simulation, runs under way, and validations.
const devicePage = (() => {
  const { byId, make, fill, ask, address, figure, value, metricName, counted, when, sortable, timeCurves } = tools;
  const MOST_POINTS = 600;
  const state = { key: "modified", down: true };
  let stream = null, asked = null;

  async function open({ run: name, live: liveName, validation }) {
    const { runs } = await ask("/api/runs"), kind = (one) => runs.filter((entry) => entry.kind === one);
    const real = kind("run").filter((one) => one.device), live = kind("live"), validations = kind("validation"), pages = kind("page");
    byId("device-empty").hidden = real.length + live.length + validations.length > 0;
    byId("real-section").hidden = !real.length;
    byId("live-section").hidden = !live.length;
    byId("validation-section").hidden = !validations.length && !pages.length;
    if (real.length) list(real);
    byId("real-detail").hidden = true;
    if (live.length) {
      const chosen = live.find((one) => one.name === liveName) || live[0];
      fill(byId("device-run"), ...live.map((one) => make("option", { value: one.name, selected: one === chosen }, one.name)));
      watch(chosen.name);
    }
    fill(byId("validations"), ...validations.map((one) => validationOf(one, one.name === validation)));
    byId("pages-lead").hidden = !pages.length;
    fill(byId("pages"), ...pages.map((one) => make("li", {}, make("a", { href: address("/page", { name: one.name }) }, one.name))));
    const chosen = real.find((one) => one.name === name) || (name ? null : real[0]);
    if (chosen) await detail(chosen);
    else if (name) tools.tell(`${name}: no such run on real hardware in this folder.`);
  }

  function close() {
    if (stream) stream.close();
    stream = null;
    asked = null;
  }

  // Real runs --------------------------------------------------------------------------------------------------------

  function list(real) {
    const text = (key, label, cell = (run) => run[key] ?? "") => ({ key, label, text: true, lower: true, value: (run) => run[key], cell });
    const columns = [
      { ...text("name", "run", (run) => make("a", { href: address("#device", { run: run.name }), class: "file" }, run.name)), head: true }, text("family", "family"), text("scenario", "scenario"), text("policy", "policy"), { ...text("seed", "seed"), text: false }, text("device", "device", (run) => make("span", { class: "wrap" }, run.device)),
      text("hardware", "hardware", (run) => make("span", { class: "wrap" }, run.hardware || "not recorded")),
      { key: "modified", label: "modified", text: true, value: (run) => run.modified, cell: (run) => when(run.modified) },
      { key: "replay", label: "Replay", hidden: true, cell: (run) => make("a", { href: address("#replay", { run: run.name }), "aria-label": `Replay ${run.name}` }, "Replay") },
    ];
    const rowOf = (run) => make("tr", { "data-run": run.name }, ...columns.map((column) => make(column.head ? "th" : "td", { scope: column.head ? "row" : null, class: column.text ? "text" : null }, column.cell(run))));
    fill(byId("real-runs"), sortable({ label: "Runs on real hardware", columns, rows: real, state, rowOf }).element);
  }

  async function detail(run) {
    const mine = (asked = {});
    document.querySelectorAll("#real-runs tbody tr").forEach((row) => row.classList.toggle("chosen", row.dataset.run === run.name));
    byId("real-detail").hidden = false;
    byId("real-title").textContent = `${run.name}: measured and simulated`;
    fill(byId("real-about"), ...[["scenario", run.scenario], ["policy", `${run.policy}, seed ${run.seed}`], ["device", run.device], ["hardware", run.hardware || "not recorded in the log"], ["command", run.command]].flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)]));
    byId("real-body").hidden = true;
    byId("real-wait").hidden = false;
    const found = await ask("/api/real", { run: run.name }).finally(() => { if (mine === asked) byId("real-wait").hidden = true; });
    if (mine !== asked) return;
    byId("real-body").hidden = false;
    fill(byId("real-notes"), ...found.notes.map((note) => make("p", { class: "callout" }, note)));
    figures(found);
    await charts(found);
  }

  function rowOf({ name, measured, simulated }) {
    const both = typeof measured === "number" && typeof simulated === "number", gap = both ? measured - simulated : null;
    const share = both && simulated !== 0 ? `${gap > 0 ? "+" : ""}${(100 * gap / Math.abs(simulated)).toFixed(1)}%` : both && gap === 0 ? "0.0%" : "–";
    return make("tr", {}, make("th", { scope: "row" }, metricName(name)), make("td", {}, value(measured)), make("td", {}, value(simulated)), make("td", {}, gap === null ? "–" : `${gap > 0 ? "+" : ""}${value(gap)}`), make("td", {}, share));
  }

  const sides = () => make("thead", {}, make("tr", {}, ...["metric", "measured", "simulated", "difference", "relative"].map((label) => make("th", { scope: "col" }, label))));
  const table = (label, rows) => make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, make("table", { class: "figures" }, sides(), make("tbody", {}, ...rows.map(rowOf))));

  function figures(found) {
    const head = found.metrics.slice(0, found.headline.length), rest = found.metrics.slice(found.headline.length);
    fill(byId("real-figures"), table("Headline metrics, measured and simulated", head), rest.length ? make("details", {}, make("summary", {}, counted(rest.length, "further metric")), table("Further metrics, measured and simulated", rest)) : "");
  }

  function charts(found) {
    const both = [["measured", found.measured], ["simulated", found.simulated]].filter(([, side]) => side);
    const curve = ([label, { responses: { x, y } }]) => ({ label, x: [0, ...x], y: [0, ...y], mark: "step" });
    const queue = ([label, { waiting: { x, y } }]) => ({ label, x, y, mark: "line" });
    const [series, unit] = timeCurves(both.map(curve), found.unit);
    byId("real-responses").closest("figure").hidden = both.every(([, { responses: { x } }]) => x.length < 2); // one job alone has no distribution
    return Promise.all([
      plot.show(byId("real-responses"), series, { xTitle: `time from arrival to finish (${unit})`, yTitle: `share of ${found.jobs}`, percent: true, fromZero: true, label: "Share of jobs finished within a time of their arrival, measured and simulated" }),
      plot.show(byId("real-waiting"), both.map(queue), { xTitle: `time (${found.unit})`, yTitle: `mean ${found.jobs} waiting`, fromZero: true, label: "Mean number of jobs waiting over time, measured and simulated" }),
    ]);
  }

  function validationOf(one, opened) {
    const about = [one.scenario, one.policy, one.seed === null ? null : `seed ${one.seed}`, one.runs ? counted(one.runs, "run") : null, one.device, one.hardware].filter(Boolean).join(", ");
    return make("details", { open: opened, class: "card" }, make("summary", {}, one.name), make("p", { class: "note" }, about), table(`Validation ${one.name}`, one.metrics));
  }

  // Runs under way ---------------------------------------------------------------------------------------------------

  function watch(name) {
    if (stream) stream.close();
    const lines = [];
    stream = new EventSource(address("/api/live", { name }));
    stream.addEventListener("again", () => { lines.length = 0; });
    stream.onmessage = (event) => {
      lines.push(...JSON.parse(event.data));
      lines.splice(0, lines.length - MOST_POINTS);
      if (lines.length) draw(lines).catch((error) => tools.tell(error.message));
    };
  }

  function draw(lines) {
    const now = lines.at(-1), missed = now.released ? now.missed / now.released : 0;
    const tiles = { time: `${figure(now.time_s, 1)} s`, "streams busy": `${now.busy} of ${now.streams}`, released: now.released, finished: now.finished, missed: `${now.missed} (${(100 * missed).toFixed(1)}%)`, waiting: now.waiting };
    if (now.latency_ms !== null) tiles["recent mean latency"] = `${figure(now.latency_ms, 1)} ms`;
    fill(byId("device-tiles"), ...Object.entries(tiles).map(([label, text]) => make("div", { class: "tile" }, label, make("b", {}, String(text)))));
    fill(byId("device-tasks"), ...now.tasks.map((task) => make("tr", {}, make("th", { scope: "row" }, task.name), ...["released", "waiting", "running", "finished"].map((key) => make("td", {}, String(task[key]))))));
    const x = lines.map((line) => line.time_s);
    return plot.show(byId("device-curve"), [
      { label: "jobs waiting", x, y: lines.map((line) => line.waiting), mark: "step" },
      { label: "jobs missed", x, y: lines.map((line) => line.missed), mark: "step" },
    ], { xTitle: "time (s)", yTitle: "jobs", label: "Jobs waiting and jobs missed over the time of the run", unified: true });
  }

  byId("device-run").addEventListener("change", (event) => { location.hash = address("device", { live: event.target.value }); });

  return { open, close };
})();
