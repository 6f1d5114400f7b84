"use strict";
// The page Compare: chosen runs side by side.
const comparePage = (() => {
  const { byId, make, fill, ask, attempt, figure, decimals, words } = tools;
  let names = [], found = null;

  async function open({ run = [] }) {
    names = [run].flat();
    byId("compare-empty").hidden = names.length > 0;
    byId("compare-body").hidden = true;
    if (names.length) await load("");
  }

  async function load(baseline) {
    found = await ask("/api/compare", { run: names, baseline });
    byId("compare-body").hidden = false;
    const episodes = Math.max(...found.policies.map((row) => row.metrics[found.metrics[0].name].episodes));
    byId("compare-lead").textContent = `${found.scenario}: ${found.policies.length} ${found.policies.length === 1 ? "policy" : "policies"}, up to ${episodes} ${episodes === 1 ? "episode" : "episodes"} each.`;
    options(byId("baseline"), found.policies.map((row) => row.policy), found.baseline);
    table();
    const metrics = found.metrics.map((metric) => metric.name);
    options(byId("pareto-x"), metrics, found.headline[1] || metrics[0]);
    options(byId("pareto-y"), metrics, found.headline[2] || found.headline[0] || metrics[0]);
    pareto();
    responses();
    optimum();
  }

  const options = (select, values, current) => fill(select, ...values.map((value) => make("option", { value, selected: value === current }, words(value))));
  const lower = (metric) => found.metrics.find((one) => one.name === metric).lower;

  function table() {
    const columns = found.headline;
    const rows = [...found.policies].sort((a, b) => (lower(columns[0]) ? 1 : -1) * (a.metrics[columns[0]].mean - b.metrics[columns[0]].mean));
    const best = Object.fromEntries(columns.map((metric) => [metric, (lower(metric) ? Math.min : Math.max)(...rows.map((row) => row.metrics[metric].mean))]));
    const whole = byId("compare-table");
    whole.caption.textContent = `Mean and half of the bootstrap 95% interval; below it the difference from ${found.baseline} over the episodes that both played, in colour where its interval excludes zero.`;
    fill(whole.tHead, make("tr", {}, make("th", { scope: "col" }, "policy"), make("th", { scope: "col" }, "episodes"), ...columns.map((metric) => make("th", { scope: "col" }, words(metric)))));
    fill(whole.tBodies[0], ...rows.map((row) => make("tr", {}, make("th", { scope: "row" }, row.policy), make("td", {}, String(row.metrics[columns[0]].episodes)),
      ...columns.map((metric) => make("td", { class: rows.length > 1 && row.metrics[metric].mean === best[metric] ? "best" : null }, estimate(row.metrics[metric]), difference(row.differences[metric], metric))))));
  }

  function estimate({ mean, low, high, episodes }) {
    return episodes > 1 ? `${figure(mean)} ± ${figure((high - low) / 2, decimals(mean))}` : figure(mean);
  }

  function difference(gap, metric) {
    if (!gap) return null;
    const digits = decimals(gap.mean), sure = gap.episodes > 1 && (gap.low > 0 || gap.high < 0);
    const good = gap.mean < 0 === lower(metric);
    const text = `${gap.mean > 0 ? "+" : ""}${figure(gap.mean, digits)}${gap.episodes > 1 ? ` [${figure(gap.low, digits)}, ${figure(gap.high, digits)}]` : ""}`;
    return make("span", { class: `difference ${sure ? (good ? "better" : "worse") : ""}`, title: sure ? (good ? "better" : "worse") : "not sure" }, text);
  }

  function pareto() {
    const across = byId("pareto-x").value, up = byId("pareto-y").value;
    const points = found.policies.map((row) => ({ label: row.policy, x: row.metrics[across].mean, y: row.metrics[up].mean }));
    const ahead = (a, b, metric) => (lower(metric) ? a < b : a > b);
    const beats = (a, b) => !ahead(b.x, a.x, across) && !ahead(b.y, a.y, up) && (ahead(a.x, b.x, across) || ahead(a.y, b.y, up));
    const front = points.filter((one) => !points.some((other) => beats(other, one))).sort((a, b) => a.x - b.x);
    const series = points.map((one) => ({ label: one.label, x: [one.x], y: [one.y], mark: "points" }));
    series.push({ label: "Pareto front", x: front.map((one) => one.x), y: front.map((one) => one.y), mark: "line", quiet: true });
    const title = (metric) => `${words(metric)} (${lower(metric) ? "less" : "more"} is better)`;
    plot.show(byId("pareto"), series, { xTitle: title(across), yTitle: title(up), label: `${words(up)} over ${words(across)}, a point per policy` });
  }

  function responses() {
    byId("cdf-section").hidden = !found.curves.length;
    if (!found.curves.length) return;
    const series = found.curves.map((one) => ({ label: one.label, x: [0, ...one.x], y: [0, ...one.y], mark: "step" }));
    plot.show(byId("cdf"), series, { xTitle: `time from release to finish (${found.unit})`, yTitle: "share of jobs", percent: true, fromZero: true, label: "Share of jobs that had finished, over the time since their release, a curve per run" });
  }

  function optimum() {
    byId("oracle-section").hidden = !found.oracle;
    if (!found.oracle) return;
    const { best_known: known, bound, exact, places } = found.oracle;
    byId("oracle-text").textContent = `With all arrivals known, the best mean reward lies between ${figure(known.mean)} (reached) and ${figure(bound.mean)} (upper bound); exact in ${exact} of ${bound.values.length} episodes. Each policy's share of that bound:`;
    const rows = Object.entries(places).sort((a, b) => b[1] - a[1]).map(([policy, share]) => make("tr", {}, make("th", { scope: "row" }, policy),
      make("td", {}, make("meter", { min: 0, max: 1, value: Math.min(Math.max(share, 0), 1), "aria-label": `${policy}: share of the bound` })), make("td", {}, `${(100 * share).toFixed(1)}%`)));
    fill(byId("oracle-bars"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Shares of the bound" }, make("table", {}, make("tbody", {}, ...rows))));
  }

  byId("baseline").addEventListener("change", (event) => attempt(() => load(event.target.value)));
  ["pareto-x", "pareto-y"].forEach((id) => byId(id).addEventListener("change", pareto));

  return { open, close() {} };
})();
