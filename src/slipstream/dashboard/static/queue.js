"use strict";
// The page Queue: what the twin of a Slurm queue said, from the files of `slipstream twin slurm --out`.
const queuePage = (() => {
  const { byId, make, fill, ask, address, figure, metricName, counted, sortable } = tools;
  const MOST_DRAWN = 40;
  const FIGURES = ["wait_mean_s", "slowdown_mean", "energy_kwh"];
  const state = { key: "median", down: false };

  async function open({ twin: name }) {
    const { runs } = await ask("/api/runs"), twins = runs.filter((one) => one.kind === "twin");
    byId("queue-empty").hidden = twins.length > 0;
    byId("queue-body").hidden = byId("queue-files").hidden = !twins.length;
    if (!twins.length) return;
    const chosen = twins.find((one) => one.name === name) || twins[0];
    if (name && chosen.name !== name) tools.tell(`${name}: no such answer in this folder.`);
    fill(byId("queue-file"), ...twins.map((one) => make("option", { value: one.name, selected: one === chosen }, one.name)));
    await show(await ask("/api/twin", { run: chosen.name }));
  }

  // 5400 becomes "1.5 h".
  function seconds(time) {
    if (time === null) return "–";
    const [size, name] = time < 90 ? [1, "s"] : time < 5400 ? [60, "min"] : time < 172800 ? [3600, "h"] : [86400, "d"];
    return `${Number((Math.max(0, time) / size).toPrecision(2)).toLocaleString("en")} ${name}`;
  }

  const median = (job) => (job.starts_in_s ? job.starts_in_s.median : null);

  async function show(found) {
    const { cluster } = found, share = `${Math.round(100 * found.interval)}%`;
    const drawn = found.past_jobs ? `run times drawn from ${counted(found.past_jobs, "past job")}` : "run times are the requested ones";
    byId("queue-about").textContent = `${found.taken_at ? `At ${found.taken_at}. ` : ""}Present rules: ${found.policy}. ${counted(found.futures, "future")}, ${drawn}.`;
    const tiles = { "GPUs in use": `${cluster.gpus_in_use} of ${cluster.gpus}`, running: cluster.running, waiting: cluster.waiting };
    fill(byId("queue-tiles"), ...Object.entries(tiles).map(([label, text]) => make("div", { class: "tile" }, label, make("b", {}, String(text)))));
    jobs(found, share);
    whatIfs(found.what_if);
    await starts(found.jobs.filter((job) => job.starts_in_s).slice(0, MOST_DRAWN), share);
  }

  function jobs(found, share) {
    const text = (key, label, cell = (job) => job[key]) => ({ key, label, text: true, lower: true, value: (job) => job[key], cell });
    const columns = [
      { ...text("job", "Job"), head: true }, { ...text("gpus", "GPUs"), text: false }, text("user", "User"),
      { key: "waited", label: "Has waited", value: (job) => job.waited_s, cell: (job) => seconds(job.waited_s) },
      { key: "median", label: "Starts in", lower: true, value: median, cell: (job) => seconds(median(job)) },
      { key: "high", label: `${share} between`, lower: true, value: (job) => job.starts_in_s && job.starts_in_s.high, cell: (job) => (job.starts_in_s ? `${seconds(job.starts_in_s.low)} – ${seconds(job.starts_in_s.high)}` : "–") },
      text("why", "Why it waits", (job) => make("span", { class: "wrap" }, job.why)),
    ];
    const rowOf = (job) => make("tr", {}, ...columns.map((column) => make(column.head ? "th" : "td", { scope: column.head ? "row" : null, class: column.text ? "text" : null }, column.cell(job))));
    fill(byId("queue-jobs"), sortable({ label: "Waiting jobs", columns, rows: found.jobs, state, rowOf }).element);
    byId("queue-more").textContent = found.more ? `${counted(found.more, "more job")} not listed.` : "";
  }

  function starts(drawn, share) {
    byId("queue-starts-section").hidden = !drawn.length;
    if (!drawn.length) return null;
    const part = (key) => drawn.map((job) => Math.max(0, job.starts_in_s[key]));
    const [[low, middle, high], unit] = tools.timeCurves(["low", "median", "high"].map((key) => ({ x: part(key) })), "s");
    return plot.show(byId("queue-starts"), [
      { label: `start, with ${share} interval`, x: middle.x, y: drawn.map((_, n) => n + 1), mark: "points", low: low.x, high: high.x },
    ], { xTitle: `from now (${unit})`, yTitle: "waiting jobs, by start", fromZero: true, label: `Starts of ${counted(drawn.length, "waiting job")} with their intervals; the table below has the same figures` });
  }

  function whatIfs(rows) {
    const head = make("tr", {}, ...["what if", "policy"].map((label) => make("th", { scope: "col", class: "text" }, label)), ...FIGURES.flatMap((name) => [make("th", { scope: "col" }, metricName(name)), make("th", { scope: "col" }, "difference")]));
    const cell = (row, name) => {
      const { mean, low, high } = row[`${name}_difference`], more = high !== null && high > low ? ` ± ${figure((high - low) / 2)}` : "";
      const sure = low !== null && low * high > 0, good = sure ? (mean < 0 ? "better" : "worse") : null;
      return [make("td", {}, figure(row[name])), make("td", { class: good }, `${mean > 0 ? "+" : ""}${figure(mean)}${more}`)];
    };
    const never = (row) => (row.never_start ? ` (${row.never_start} never start)` : "");
    fill(byId("queue-what-if"), make("table", { class: "figures" }, make("thead", {}, head), make("tbody", {}, ...rows.map((row) => make("tr", {}, make("th", { scope: "row", class: "text" }, row.what_if + never(row)), make("td", { class: "text" }, row.policy), ...FIGURES.flatMap((name) => cell(row, name)))))));
  }

  byId("queue-file").addEventListener("change", (event) => { location.hash = address("queue", { twin: event.target.value }); });

  return { open, close: () => {} };
})();
