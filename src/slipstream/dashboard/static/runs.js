"use strict";
// The page Runs: a table of runs for each family with its headline metrics, then trainings, comparisons and other files.
const runsPage = (() => {
  const { byId, make, fill, ask, send, address, attempt, value, metricName, direction, counted, algorithm, when, sortable } = tools;
  const BATCH = 20, PAUSE_MS = 60;
  const FILTERS = { family: "filter-family", scenario: "filter-scenario", policy: "filter-policy" };
  const chosen = new Set();
  const metrics = new Map(); // what is known of each run, by name and time of change
  const states = new Map(); // how each table is sorted, by its title
  let listed = [], families = {}, more = 0, looking = null, wanted = new Map(), timer = null;

  async function open({ training = [] }) {
    await load();
    await trainings.open([training].flat(), listed);
  }

  const close = () => trainings.close();

  async function load() {
    const answer = await ask("/api/runs");
    [listed, families, more] = [answer.runs.filter((run) => run.kind !== "live"), answer.families, answer.more]; // live runs are on the page Device
    const there = new Set(listed.map((run) => run.name));
    [...chosen].filter((name) => !there.has(name)).forEach((name) => chosen.delete(name));
    choices();
    draw();
    if (answer.notes_problem) tools.tell(`Notes cannot be shown: ${answer.notes_problem}`);
  }

  // Filters ----------------------------------------------------------------------------------------------------------

  const policiesOf = (run) => (run.kind === "comparison" ? (run.policy || "").split(", ") : run.policy ? [run.policy] : []);

  function choices() {
    const values = {
      family: Object.keys(families).filter((family) => listed.some((run) => run.family === family)),
      scenario: [...new Set(listed.map((run) => run.scenario).filter(Boolean))].sort(),
      policy: [...new Set(listed.flatMap(policiesOf))].sort(),
    };
    for (const [key, id] of Object.entries(FILTERS)) {
      const select = byId(id), now = select.value;
      fill(select, make("option", { value: "" }, "All"), ...values[key].map((one) => make("option", { value: one, selected: one === now }, one)));
    }
  }

  const textOf = (run) => [run.name, run.kind, run.scenario, run.policy, run.device, run.note, run.seed === undefined ? "" : `seed ${run.seed}`].join(" ").toLowerCase();

  function passing() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const { family, scenario, policy } = Object.fromEntries(Object.entries(FILTERS).map(([key, id]) => [key, byId(id).value]));
    return listed.filter((run) => words.every((word) => textOf(run).includes(word)) && (!family || run.family === family)
      && (!scenario || run.scenario === scenario) && (!policy || policiesOf(run).includes(policy)));
  }

  function clear() {
    byId("search").value = "";
    Object.values(FILTERS).forEach((id) => { byId(id).value = ""; });
    draw();
  }

  // Tables -----------------------------------------------------------------------------------------------------------

  function draw() {
    const shown = passing(), count = shown.length === listed.length ? counted(listed.length, "entry", "entries") : `${shown.length} of ${listed.length} entries`;
    byId("runs-count").textContent = listed.length ? `${count}${more ? `; ${more} more are not listed` : ""}` : "";
    byId("runs-empty").hidden = listed.length > 0;
    byId("runs-none").hidden = !listed.length || shown.length > 0;
    byId("clear-filters").disabled = shown.length === listed.length;
    if (looking) looking.disconnect();
    looking = new IntersectionObserver((rows) => rows.filter((row) => row.isIntersecting).forEach((row) => { looking.unobserve(row.target); want(row.target.run); }));
    const kind = (name) => shown.filter((run) => run.kind === name);
    const groups = Object.keys(families).map((family) => [family, kind("run").filter((run) => run.family === family), runColumns(family)]);
    groups.push(["Trainings", kind("training"), TRAINING], ["Comparisons", kind("comparison"), COMPARISON], ["Reports", kind("page"), PAGE], ["Queues", kind("twin"), TWIN], ["Validations", kind("validation"), VALIDATION], ["Unreadable files", kind("unreadable"), UNREADABLE]);
    fill(byId("runs-groups"), ...groups.filter(([, rows]) => rows.length).map(([title, rows, columns]) => group(title, rows, columns)));
    drawSelection();
  }

  function group(title, rows, columns) {
    if (!states.has(title)) states.set(title, { key: "modified", down: true });
    const table = sortable({ label: `${title}: ${counted(rows.length, "row")}`, columns, rows, state: states.get(title), rowOf, before: (column) => column.metric && measureAll(rows) });
    return make("section", { class: "card table-card", "data-group": title }, make("h2", {}, title, make("span", { class: "count" }, String(rows.length))), table.element);
  }

  function rowOf(run, columns) {
    const row = make("tr", {}, ...columns.map((column) => make(column.head ? "th" : "td", { scope: column.head ? "row" : null, class: column.text ? "text" : null }, column.cell(run))));
    row.run = run;
    row.metricCells = Object.fromEntries(columns.map((column, n) => [column.metric, row.cells[n]]).filter(([metric]) => metric));
    run.row = row;
    if (run.kind === "run") { if (!fillMetrics(run)) looking.observe(row); }
    return row;
  }

  const select = { key: "select", label: "Select", hidden: true, cell: (run) => {
    const box = make("input", { type: "checkbox", "aria-label": `Select ${run.name}`, onchange: (event) => choose(run.name, event.target.checked) });
    box.checked = chosen.has(run.name);
    return box;
  } };
  const text = (key, label, cell = (run) => run[key] ?? "") => ({ key, label, text: true, lower: true, value: (run) => run[key], cell });
  const number = (key, label) => ({ key, label, value: (run) => run[key], cell: (run) => value(run[key]) });
  const file = { key: "name", label: "file", text: true, lower: true, head: true, value: (run) => run.name, cell: link };
  const note = { key: "note", label: "note", text: true, lower: true, value: (run) => run.note, cell: noteOf };
  const modified = { key: "modified", label: "modified", text: true, value: (run) => run.modified, cell: (run) => when(run.modified) };
  const policy = text("policy", "policy", (run) => make("span", {}, run.policy || "", run.device ? make("a", { class: "badge", href: address("#device", { run: run.name }), title: run.device }, "real") : null));

  function runColumns(family) {
    const figures = families[family].headline.map(({ name, lower, neutral }) => ({ key: name, metric: name, lower, label: metricName(name), title: direction({ lower, neutral }), value: (run) => (known(run)?.metrics || {})[name], cell: () => make("span", { class: "quiet" }, "…") }));
    return [select, file, text("scenario", "scenario"), policy, { ...number("seed", "seed"), lower: true, cell: (run) => String(run.seed) }, ...figures, note, modified];
  }

  const gain = (run) => (run.best_reward === undefined ? undefined : run.best_reward - run.heuristic_reward);
  const TRAINING = [select, file, text("scenario", "scenario"), text("policy", "algorithm", (run) => algorithm(run.policy || "")), { ...number("seed", "seed"), cell: (run) => String(run.seed ?? "–") }, number("trained_steps", "steps"), number("best_reward", "best reward"), number("heuristic_reward", "best heuristic"),
    { key: "gain", label: "difference", title: "Best reward of the policy in training minus that of the best heuristic", value: gain, cell: (run) => { const by = gain(run); return by === undefined ? "–" : make("span", { class: by > 0 ? "better" : by < 0 ? "worse" : null }, `${by > 0 ? "+" : ""}${value(by)}`); } }, note, modified];
  const COMPARISON = [select, file, text("scenario", "scenario"), text("policy", "policies"), number("episodes", "episodes"), { key: "seed", label: "seeds", value: (run) => run.seed, lower: true, cell: (run) => `${run.seed}–${run.seed + run.episodes - 1}` }, note, modified];
  const PAGE = [file, note, modified];
  const VALIDATION = [file, text("scenario", "scenario"), text("policy", "policy"), text("device", "device"), note, modified];
  const TWIN = [file, text("policy", "present rules"), number("waiting", "waiting jobs"), text("taken_at", "taken at"), note, modified];
  const UNREADABLE = [{ ...file, cell: (run) => run.name }, text("error", "problem", (run) => make("span", { class: "wrap" }, run.error)), modified];

  function link(run) {
    const targets = { run: address("#replay", { run: run.name }), training: address("#runs", { training: run.name }), comparison: address("#compare", { run: run.name }), validation: address("#device", { validation: run.name }), twin: address("#queue", { twin: run.name }) };
    const titles = { run: "Replay", training: "Show training curve", comparison: "Show comparison", page: "Open page", validation: "Show on the page Device", twin: "Show on the page Queue" };
    return make("a", { href: targets[run.kind] || address("/page", { name: run.name }), title: titles[run.kind], class: "file" }, run.name);
  }

  // Metrics need the whole log, so they are requested when a row comes into sight, or all of a table to sort it.

  const keyOf = (run) => `${run.name} ${run.modified}`;
  const known = (run) => metrics.get(keyOf(run));

  function want(run) {
    if (known(run)) return;
    wanted.set(run.name, run);
    timer ||= setTimeout(() => { timer = null; const batch = [...wanted.values()]; wanted = new Map(); measure(batch).catch((error) => tools.tell(error.message)); }, PAUSE_MS); // a message that stands stays
  }

  const measureAll = (rows) => measure(rows.filter((run) => !known(run)));

  async function measure(rows) {
    for (let n = 0; n < rows.length; n += BATCH) {
      const batch = rows.slice(n, n + BATCH), found = await ask("/api/metrics", { run: batch.map((run) => run.name) });
      batch.forEach((run) => { metrics.set(keyOf(run), found[run.name]); fillMetrics(run); });
    }
  }

  function fillMetrics(run) {
    const found = known(run);
    if (!found) return false;
    const cells = Object.entries(run.row.metricCells);
    cells.forEach(([metric, cell], n) => { fill(cell, found.metrics ? value(found.metrics[metric]) : n ? "–" : make("span", { class: "worse", title: found.error }, "damaged")); });
    return true;
  }

  // Notes ------------------------------------------------------------------------------------------------------------

  function noteOf(run) {
    const holder = make("span", { class: "run-note" });
    const show = () => fill(holder, make("button", { type: "button", class: run.note ? "note-text" : "note-add", "aria-label": run.note ? `Edit note of ${run.name}` : `Add note to ${run.name}`, onclick: edit }, run.note || "Add note"));
    function edit() {
      let settled = false;
      const input = make("input", { type: "text", value: run.note, maxlength: 2000, "aria-label": `Note of ${run.name}`, placeholder: "Enter saves, Escape cancels" });
      const end = (keep) => {
        if (settled) return;
        settled = true;
        if (!keep || input.value.trim() === run.note) { show(); holder.firstChild.focus(); return; }
        attempt(async () => {
          try { run.note = (await send("/api/note", { run: run.name, text: input.value })).note; } finally { show(); }
        });
      };
      input.addEventListener("keydown", (event) => { if (event.key === "Enter") end(true); if (event.key === "Escape") end(false); });
      input.addEventListener("blur", () => end(true));
      fill(holder, input);
      input.focus();
    }
    show();
    return holder;
  }

  // Selection --------------------------------------------------------------------------------------------------------

  function choose(name, isChosen) {
    if (isChosen) chosen.add(name); else chosen.delete(name);
    drawSelection();
  }

  const selected = (...kinds) => listed.filter((run) => chosen.has(run.name) && kinds.includes(run.kind)).map((run) => run.name);

  function drawSelection() {
    const runs = selected("run", "comparison").length, curves = selected("training").length;
    byId("compare-chosen").disabled = !runs;
    byId("compare-chosen").textContent = runs ? `Compare selected (${runs})` : "Compare selected";
    byId("plot-chosen").hidden = !listed.some((run) => run.kind === "training");
    byId("plot-chosen").disabled = !curves;
    byId("plot-chosen").textContent = curves ? `Plot training curves (${curves})` : "Plot training curves";
  }

  byId("search").addEventListener("input", draw);
  Object.values(FILTERS).forEach((id) => byId(id).addEventListener("change", draw));
  byId("clear-filters").addEventListener("click", clear);
  byId("refresh").addEventListener("click", () => attempt(load));
  byId("compare-chosen").addEventListener("click", () => { location.hash = address("compare", { run: selected("run", "comparison") }); });
  byId("plot-chosen").addEventListener("click", () => { location.hash = address("runs", { training: selected("training") }); });

  return { open, close };
})();
