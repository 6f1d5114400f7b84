"use strict";
// The page Try it: a scenario as a form and as JSON, checked while it is written; then policies play it.
const tryPage = (() => {
  const { byId, make, fill, ask, send, address, attempt, estimate, metricName } = tools;
  const CHECK_AFTER_MS = 300, LOOK_EVERY_MS = 700;
  let known = null, data = null, family = null, timer = null, checks = 0, starts = 0, job = null, polling = null;

  async function open() {
    if (!known) {
      known = await ask("/api/scenarios");
      fill(byId("builtin"), ...known.scenarios.map((name) => make("option", { value: name, selected: name === "edge/tiny" }, name)));
      await start(byId("builtin").value);
    }
    if (job && job.state === "running") poll();
  }

  function close() {
    clearTimeout(polling);
  }

  // Until the scenario has come, nothing can be written that it would wipe out; of two that were asked for, the last counts.
  async function start(name) {
    const mine = ++starts;
    clearTimeout(timer);
    checks += 1;
    hold(true);
    try {
      const scenario = await ask("/api/scenario", { name });
      if (mine !== starts) return;
      put(scenario);
      drawForm();
    } finally {
      if (mine === starts) hold(false);
    }
    await check();
  }

  const hold = (still) => [...byId("form").elements, byId("json")].forEach((control) => { control.disabled = still; });

  const put = (scenario) => { data = scenario; byId("json").value = JSON.stringify(scenario, null, 2); };

  function drawForm() {
    editor.build(byId("form"), data, known.schema, (path, value) => {
      const last = path.at(-1);
      path.slice(0, -1).reduce((inner, step) => inner[step], data)[last] = value;
      put(data);
      attempt(check);
    });
    drawPolicies();
  }

  function drawPolicies() {
    if (data.family === family) return;
    family = data.family;
    const boxes = Object.entries(known.policies[family] || {}).map(([name, text]) => {
      const box = make("input", { type: "checkbox", value: name, onchange: drawCommand });
      box.checked = known.defaults[family].includes(name);
      return make("label", { title: text }, box, ` ${name}`);
    });
    fill(byId("policies"), make("legend", {}, "Policies"), ...boxes);
    drawCommand();
  }

  const chosen = () => [...byId("policies").querySelectorAll("input:checked")].map((box) => box.value);

  function drawCommand() {
    const oracle = Number(byId("oracle-seconds").value) ? ` --oracle ${byId("oracle-seconds").value}` : "";
    byId("command").textContent = `slipstream compare scenario.json --policies ${chosen().join(",")} --episodes ${byId("episodes").value} --seed ${byId("seed").value}${oracle}`;
  }

  // Checking ---------------------------------------------------------------------------------------------------------

  async function check() {
    const mine = ++checks;
    const answer = await send("/api/check", { text: byId("json").value });
    if (mine !== checks) return;
    if (answer.scenario !== null && typeof answer.scenario === "object" && JSON.stringify(answer.scenario) !== JSON.stringify(data)) {
      data = answer.scenario;
      drawForm();
    }
    const elsewhere = editor.mark(byId("form"), answer.problems);
    fill(byId("problems"), ...elsewhere.map(({ place, text }) => make("li", {}, place ? `${place}: ${text}` : text)));
    byId("json").setAttribute("aria-invalid", String(answer.problems.length > 0));
    byId("go").disabled = answer.problems.length > 0;
  }

  // Running ----------------------------------------------------------------------------------------------------------

  async function go() {
    const trial = { text: byId("json").value, policies: chosen(), episodes: Number(byId("episodes").value), seed: Number(byId("seed").value), oracle_seconds: Number(byId("oracle-seconds").value) };
    fill(byId("result"));
    job = await send("/api/jobs", trial);
    drawJob();
    poll();
  }

  function poll() {
    clearTimeout(polling);
    polling = setTimeout(() => attempt(async () => {
      job = await ask(`/api/jobs/${job.name}`);
      drawJob();
      if (job.state === "running") poll();
      else if (job.state === "done") await drawResult();
    }), LOOK_EVERY_MS);
  }

  function drawJob() {
    byId("cancel").hidden = job.state !== "running";
    byId("go").disabled = job.state === "running";
    const first = job.state === "running" ? " The first run of a family compiles its simulator, which takes up to a minute, once." : "";
    byId("job").textContent = `Run ${job.name}: ${job.state}, ${job.seconds} s.${job.message ? ` ${job.message}` : first}`;
  }

  async function drawResult() {
    const name = `${job.folder}/comparison.json`, found = await ask("/api/compare", { run: name });
    const { runs } = await ask("/api/runs");
    const logs = runs.filter((one) => one.kind === "run" && one.name.startsWith(`${job.folder}/`));
    const rows = found.policies.map((row) => make("tr", {}, make("th", { scope: "row" }, row.policy), ...found.headline.map((metric) => make("td", {}, estimate(row.metrics[metric]))),
      make("td", {}, ...logs.filter((log) => log.policy === row.policy).map((log) => make("a", { href: address("#replay", { run: log.name }), "aria-label": `Replay ${row.policy}` }, "Replay")))));
    const head = make("tr", {}, make("th", { scope: "col" }, "policy"), ...found.headline.map((metric) => make("th", { scope: "col" }, metricName(metric))), make("th", { scope: "col" }, make("span", { class: "hidden-text" }, "Replay")));
    const { episodes } = found.policies[0].metrics[found.headline[0]];
    const caption = episodes > 1 ? `Mean and half-width of the bootstrap 95% interval over ${episodes} episodes.` : "One episode: no interval. Choose more episodes for one.";
    fill(byId("result"), make("h2", {}, "Result"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Result" }, make("table", { id: "result-table" }, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...rows))),
      make("p", {}, make("a", { href: address("#compare", { run: [name, ...logs.map((log) => log.name)] }) }, "Open the full comparison")));
  }

  function save() {
    const link = make("a", { href: URL.createObjectURL(new Blob([byId("json").value], { type: "application/json" })), download: "scenario.json" });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  byId("builtin").addEventListener("change", (event) => attempt(() => start(event.target.value)));
  byId("json").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => attempt(check), CHECK_AFTER_MS); });
  byId("form").addEventListener("submit", (event) => event.preventDefault());
  ["episodes", "seed", "oracle-seconds"].forEach((id) => byId(id).addEventListener("input", drawCommand));
  byId("go").addEventListener("click", () => attempt(go));
  byId("cancel").addEventListener("click", () => attempt(async () => { job = await ask(`/api/jobs/${job.name}`, {}, { method: "DELETE" }); drawJob(); }));
  byId("export").addEventListener("click", save);

  return { open, close };
})();
