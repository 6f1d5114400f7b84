"use strict";
// The page Compare: selected runs of one scenario side by side; says what can be compared where the selection cannot.
const comparePage = (() => {
  const { byId, make, fill, ask, address, attempt, figure, decimals, metricName, direction, counted, estimate, timeCurves } = tools;
  const MOST_OFFERED = 12, HEIGHT = 380;
  let listed = [], groups = [], current = null, found = null;

  async function open({ run = [], scenario = "" }) {
    const names = [...new Set([run].flat())];
    listed = (await ask("/api/runs")).runs;
    const entries = names.map((name) => listed.find((one) => one.name === name)).filter(comparable);
    groups = grouped(entries);
    current = groups.find((group) => group.key === scenario) || groups.find((group) => policiesIn(group) > 1) || groups[0] || null;
    byId("compare-body").hidden = !current;
    guide(names, names.filter((name) => !entries.some((one) => one.name === name)));
    drawTabs(names);
    if (current) await load("");
  }

  const comparable = (run) => run && (run.kind === "run" || run.kind === "comparison");

  // Runs of one scenario, distinguished by digest: a name may stand for several versions of it.
  function grouped(entries) {
    const byKey = new Map();
    for (const one of entries) {
      const key = `${one.scenario} ${one.digest}`;
      if (!byKey.has(key)) byKey.set(key, { key, scenario: one.scenario, digest: one.digest, runs: [] });
      byKey.get(key).runs.push(one);
    }
    const all = [...byKey.values()];
    all.forEach((group) => { group.label = all.filter((other) => other.scenario === group.scenario).length > 1 ? `${group.scenario} (digest ${group.digest.slice(0, 8)})` : group.scenario; });
    return all;
  }

  const policiesIn = (group) => new Set(group.runs.flatMap((run) => (run.kind === "comparison" ? run.policy.split(", ") : [run.policy]))).size;

  // Guidance ---------------------------------------------------------------------------------------------------------

  function guide(names, left) {
    const parts = [];
    if (!names.length) parts.push(make("p", {}, "Nothing is selected. Select runs or a saved comparison on the page ", make("a", { href: "#runs" }, "Runs"), ", or open one of these:"), offers());
    if (left.length) {
      const reasons = left.map((name) => { const run = listed.find((one) => one.name === name); return make("li", {}, run ? `${name} is a ${run.kind === "unreadable" ? "file that cannot be read" : run.kind}` : `${name} is not in this folder`); });
      parts.push(make("p", {}, "Left out, because only recorded runs and saved comparisons can be compared:"), make("ul", {}, ...reasons));
    }
    if (groups.length > 1) parts.push(make("p", {}, `The selected runs are of ${groups.length} scenarios. Figures of different scenarios say nothing about the policies, so each scenario is compared on its own. Choose one:`));
    if (current && policiesIn(current) === 1) {
      const more = current.runs.length === 1 ? "Only one run is selected" : `All selected runs of ${current.label} have the same policy`;
      const others = offered(current);
      parts.push(make("p", {}, others.length ? `${more}: its figures are below. Add another of ${current.label} to compare with:` : `${more}, and the folder has no other of ${current.label}: its figures are below. Record another policy to compare with: `, others.length ? null : make("code", {}, `slipstream run ${current.scenario} --policy … --log runs/name.parquet`)));
      if (others.length) parts.push(make("ul", { class: "offers" }, ...others.map((one) => make("li", {}, make("a", { href: address("#compare", { run: [...names, one.name] }) }, `Add ${one.policy}${one.kind === "run" ? `, seed ${one.seed}` : ""}`), ` (${one.name})`))));
    }
    fill(byId("compare-guide"), ...parts);
    byId("compare-guide").hidden = !parts.length;
  }

  // Runs of the same scenario with another policy; those with a seed of the selection first, as only they pair up.
  function offered(group) {
    const seeds = new Set(group.runs.map((run) => run.seed)), chosen = new Set(group.runs.map((run) => run.name)), own = new Set(group.runs.map((run) => run.policy));
    return listed.filter((one) => comparable(one) && one.scenario === group.scenario && one.digest === group.digest && !chosen.has(one.name) && !own.has(one.policy))
      .sort((a, b) => seeds.has(b.seed) - seeds.has(a.seed)).slice(0, MOST_OFFERED);
  }

  function offers() {
    const ready = grouped(listed.filter(comparable)).filter((group) => policiesIn(group) > 1).slice(0, MOST_OFFERED);
    if (!ready.length) return make("p", { class: "note" }, "No scenario of this folder has runs of two policies yet.");
    return make("ul", { class: "offers" }, ...ready.map((group) => make("li", {}, make("a", { href: address("#compare", { run: group.runs.map((run) => run.name).slice(0, 64) }) }, `Compare ${counted(policiesIn(group), "policy", "policies")} on ${group.label}`))));
  }

  function drawTabs(names) {
    byId("compare-scenarios").hidden = groups.length < 2;
    fill(byId("compare-scenarios"), ...groups.map((group) => make("a", { class: "tab", href: address("#compare", { run: names, scenario: group.key }), "aria-current": group === current ? "true" : null }, group.label, make("span", { class: "count" }, counted(policiesIn(group), "policy", "policies")))));
  }

  // Figures ----------------------------------------------------------------------------------------------------------

  async function load(baseline) {
    found = await ask("/api/compare", { run: current.runs.map((run) => run.name), baseline });
    const played = found.policies.map((row) => row.metrics[found.metrics[0].name].episodes);
    const episodes = Math.max(...played), fewest = Math.min(...played);
    byId("compare-lead").textContent = `${found.scenario}: ${counted(found.policies.length, "policy", "policies")}, ${fewest < episodes ? "up to " : ""}${counted(episodes, "episode")}${found.policies.length > 1 ? " each" : ""}.`;
    options(byId("baseline"), found.policies.map((row) => row.policy), found.baseline, (policy) => policy);
    byId("baseline-controls").hidden = found.policies.length < 2;
    table();
    const metrics = found.metrics.map((metric) => metric.name);
    options(byId("interval-metric"), metrics, found.headline[0] || metrics[0], metricName);
    options(byId("pareto-x"), metrics, found.headline[1] || metrics[0], metricName);
    options(byId("pareto-y"), metrics, found.headline[2] || found.headline[0] || metrics[0], metricName);
    ["intervals-section", "pareto-section"].forEach((id) => { byId(id).hidden = found.policies.length < 2; });
    optimum();
    await Promise.all([...(found.policies.length > 1 ? [intervals(), pareto()] : []), responses()]);
  }

  const options = (select, values, selected, text) => fill(select, ...values.map((one) => make("option", { value: one, selected: one === selected }, text(one))));
  const about = (metric) => found.metrics.find((one) => one.name === metric), lower = (metric) => about(metric).lower;
  const title = (metric) => `${metricName(metric)}, ${direction(about(metric))}`;
  const ranked = (metric) => [...found.policies].sort((a, b) => (lower(metric) ? 1 : -1) * (a.metrics[metric].mean - b.metrics[metric].mean));

  function table() {
    const columns = found.headline, rows = ranked(columns[0]), several = rows.length > 1;
    const best = Object.fromEntries(columns.map((metric) => [metric, (lower(metric) ? Math.min : Math.max)(...rows.map((row) => row.metrics[metric].mean))]));
    const whole = byId("compare-table"), unpaired = rows.filter((row) => row.policy !== found.baseline && !Object.keys(row.differences).length);
    const alone = rows.every((row) => row.metrics[columns[0]].episodes === 1);
    whole.caption.textContent = (alone ? "One episode each: no intervals." : "Mean and half-width of the bootstrap 95% interval.") + (several && alone ? ` Below each figure the difference from ${found.baseline}.` : several ? ` Below it the paired difference from ${found.baseline}, in colour where its 95% interval excludes zero.` : "")
      + (unpaired.length ? ` ${unpaired.map((row) => row.policy).join(", ")}: no seed in common with ${found.baseline}, so no difference.` : "");
    fill(whole.tHead, make("tr", {}, make("th", { scope: "col" }, "policy"), make("th", { scope: "col" }, "episodes"), ...columns.map((metric) => make("th", { scope: "col", title: direction(about(metric)) }, metricName(metric)))));
    fill(whole.tBodies[0], ...rows.map((row) => make("tr", {}, make("th", { scope: "row" }, row.policy), make("td", {}, String(row.metrics[columns[0]].episodes)),
      ...columns.map((metric) => make("td", { class: several && !about(metric).neutral && row.metrics[metric].mean === best[metric] ? "best" : null }, estimate(row.metrics[metric]), difference(row.differences[metric], metric))))));
  }

  function difference(gap, metric) {
    if (!gap) return null;
    const digits = decimals(gap.mean), sure = gap.episodes > 1 && (gap.low > 0 || gap.high < 0);
    const judged = about(metric).neutral ? "" : gap.mean < 0 === lower(metric) ? "better" : "worse";
    const interval = gap.episodes > 1 ? [" ", make("span", {}, `[${figure(gap.low, digits)}, ${figure(gap.high, digits)}]`)] : [];
    return make("span", { class: `difference ${sure ? judged : ""}`, title: sure ? judged || "significant" : "not significant" }, signed(gap.mean, digits), ...interval);
  }

  // A number with its sign; none where it is rounded to zero.
  function signed(number, digits) {
    const shown = figure(number, digits);
    return `${number > 0 && /[1-9]/.test(shown) ? "+" : ""}${shown}`;
  }

  function intervals() {
    const metric = byId("interval-metric").value, rows = ranked(metric), of = (row) => row.metrics[metric];
    const series = rows.map((row) => ({ label: row.policy, x: [of(row).mean], y: [row.policy], low: [of(row).low], high: [of(row).high], mark: "points", colour: found.policies.indexOf(row), hidden: true }));
    return plot.show(byId("intervals"), series, { xTitle: title(metric), yTitle: "", categories: rows.map((row) => row.policy).reverse(), height: Math.max(HEIGHT, 90 + 30 * rows.length), label: `${metricName(metric)} of each policy with its 95% interval` });
  }

  function pareto() {
    const across = byId("pareto-x").value, up = byId("pareto-y").value;
    const points = found.policies.map((row) => ({ label: row.policy, x: row.metrics[across].mean, y: row.metrics[up].mean }));
    const ahead = (a, b, metric) => (lower(metric) ? a < b : a > b);
    const beats = (a, b) => !ahead(b.x, a.x, across) && !ahead(b.y, a.y, up) && (ahead(a.x, b.x, across) || ahead(a.y, b.y, up));
    const front = points.filter((one) => !points.some((other) => beats(other, one))).sort((a, b) => a.x - b.x);
    // Policies at the same point share one label.
    const together = (one) => points.filter((other) => other.x === one.x && other.y === one.y).map((other) => other.label);
    const series = points.map((one) => ({ label: one.label, x: [one.x], y: [one.y], mark: "points", named: points.length <= 12 && together(one)[0] === one.label ? together(one).join(", ") : null, side: side(one.x, points.map((other) => other.x)) }));
    series.push({ label: "Pareto front", x: front.map((one) => one.x), y: front.map((one) => one.y), mark: "line", colour: -1, quiet: true });
    return plot.show(byId("pareto"), series, { xTitle: title(across), yTitle: title(up), xRange: around(points.map((one) => one.x)), yRange: around(points.map((one) => one.y)), height: HEIGHT, label: `${metricName(up)} over ${metricName(across)}, one point per policy` });
  }

  // Where a label does not leave the chart: to the right of the points in its left third, to the left in its right one.
  function side(x, all) {
    const low = Math.min(...all), share = (x - low) / (Math.max(...all) - low || 1);
    return low === Math.max(...all) ? "center" : share < 1 / 3 ? "right" : share > 2 / 3 ? "left" : "center";
  }

  // The range of an axis on which all points have one value; null leaves the choice to the chart.
  function around(values) {
    const [one] = values, spread = Math.abs(one) / 10;
    if (values.some((other) => other !== one)) return null;
    return one === 0 ? [-0.05, 1.05] : [one - spread, one + spread];
  }

  function responses() {
    byId("cdf-section").hidden = !found.curves.length;
    if (!found.curves.length) return undefined;
    byId("cdf-about").textContent = `Share of ${found.jobs} that finished within a given time of their arrival. Further left is faster; a curve that ends below 100% had ${found.jobs} that never finished.`;
    const [series, unit] = timeCurves(found.curves.map((one) => ({ label: one.label, x: [0, ...one.x], y: [0, ...one.y], mark: "step" })), found.unit);
    return plot.show(byId("cdf"), series, { xTitle: `time from arrival to finish (${unit})`, yTitle: `share of ${found.jobs}`, percent: true, fromZero: true, label: `Share of ${found.jobs} finished within a time of their arrival, one curve per run` });
  }

  function optimum() {
    byId("oracle-section").hidden = !found.oracle;
    if (!found.oracle) return;
    const { best_known: known, bound, exact, places } = found.oracle;
    byId("oracle-text").textContent = `With all arrivals known in advance, the optimal mean reward lies between ${figure(known.mean)} (best known schedule) and ${figure(bound.mean)} (upper bound); it is exact in ${exact} of ${counted(bound.values.length, "episode")}. Each policy's share of the bound:`;
    const rows = Object.entries(places).sort((a, b) => b[1] - a[1]).map(([policy, share]) => make("tr", {}, make("th", { scope: "row" }, policy),
      make("td", {}, make("meter", { min: 0, max: 1, value: Math.min(Math.max(share, 0), 1), "aria-label": `${policy}: share of the bound` })), make("td", {}, `${(100 * share).toFixed(1)}%`)));
    fill(byId("oracle-bars"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Shares of the bound" }, make("table", {}, make("tbody", {}, ...rows))));
  }

  byId("baseline").addEventListener("change", (event) => attempt(() => load(event.target.value)));
  byId("interval-metric").addEventListener("change", () => attempt(intervals));
  ["pareto-x", "pareto-y"].forEach((id) => byId(id).addEventListener("change", () => attempt(pareto)));

  return { open, close() {} };
})();
