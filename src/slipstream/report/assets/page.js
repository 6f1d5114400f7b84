"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const PALETTE = ["#4c8dd6", "#e2843b", "#3fa878", "#c65d9b", "#8e7cc3", "#b8a03e", "#41aebb", "#9a8478"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const CONFIG = { responsive: true, displayModeBar: false };
  const NEVER = "never ran";
  const LABELLED = 250; // bars in sight up to which each may carry its task's name and its deadline
  const [OPEN, ON_TIME] = [0, 1];
  const view = { from: 0, to: innerWidth < 520 ? page.first / 2 : page.first };
  let printing = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const element = (id) => document.getElementById(id);
  const round = (time) => Number(time.toPrecision(7));

  function theme() {
    const names = ["page", "text", "muted", "line", "panel", "on-time", "missed", "open", "empty", "full"];
    const found = Object.fromEntries(names.map((name) => [name, colour("--" + name)]));
    return printing ? { ...found, page: "#fff", text: "#000", muted: "#444", line: "#ccc", panel: "#fff", empty: "#f1f3f6", full: "#b3460f" } : found;
  }

  function dressed(layout, look, width) {
    const axis = { gridcolor: look.line, zerolinecolor: look.line, linecolor: look.line, automargin: true, title: { standoff: 8 } };
    const narrow = width < 520;
    return {
      height: 340,
      margin: { l: layout.dragmode === "pan" ? 84 : 50, r: narrow ? 8 : 20, t: 12, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: narrow ? 11 : 13, color: look.text },
      hoverlabel: { bgcolor: look.panel, bordercolor: look.line, font: { color: look.text }, align: "left" },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      ...layout,
      width: printing ? 660 : undefined,
      xaxis: { ...axis, ...layout.xaxis, title: { ...axis.title, ...layout.xaxis.title } },
      yaxis: { ...axis, ...layout.yaxis, title: { ...axis.title, ...(layout.yaxis.title || {}) } },
    };
  }

  function painted(trace, look) {
    if (trace.type === "heatmap") return { ...trace, colorscale: [[0, look.empty], [1, look.full]] };
    const own = PALETTE[trace.meta.colour % PALETTE.length];
    if (trace.type === "bar") return { ...trace, marker: { color: own } };
    const dash = DASHES[Math.floor(trace.meta.colour / PALETTE.length) % DASHES.length];
    const marker = { ...trace.marker, color: own, line: { width: 1, color: look.text } };
    return { ...trace, line: { width: 2, dash, ...trace.line, color: own }, marker };
  }

  function drawFigure(id, look, { data, layout } = page.figures[id]) {
    const plot = element(id);
    return Plotly.react(plot, data.map((trace) => painted(trace, look)), dressed(layout, look, plot.clientWidth), CONFIG);
  }

  // Gantt charts: all slices are in the page, those in sight are drawn.

  const kindOf = (fate) => (fate === ON_TIME ? "on-time" : fate === OPEN ? "open" : "missed");

  function told(run, jobs, i) {
    const lines = [`<b>${run.tasks[jobs.task[i]]}</b>, job ${jobs.number[i]}`];
    if (jobs.start) lines.push(`${run.variants[jobs.task[i]][jobs.variant[i]]}`, `ran ${jobs.start[i]} to ${jobs.end[i]} ${page.unit}`);
    lines.push(`released ${jobs.release[i]}, deadline ${jobs.deadline[i]} ${page.unit}`, page.fates[jobs.fate[i]]);
    return lines.join("<br>");
  }

  // Bars narrower than a pixel that touch one of the same colour become one, so a whole run is as quick as a part.
  function bars(run, from, to, pixel) {
    const jobs = run.ran, last = {}, found = { "on-time": [], missed: [], open: [] };
    for (let i = 0; i < jobs.start.length && jobs.start[i] <= to; i++) {
      if (jobs.end[i] < from) continue;
      const kind = kindOf(jobs.fate[i]), key = kind + jobs.resource[i], before = last[key];
      if (before && jobs.end[i] - jobs.start[i] < pixel && jobs.start[i] - before.end < pixel) {
        before.end = Math.max(before.end, jobs.end[i]);
        before.jobs++;
      } else {
        found[kind].push(last[key] = { start: jobs.start[i], end: jobs.end[i], row: jobs.resource[i], index: i, jobs: 1 });
      }
    }
    return found;
  }

  function ganttTraces(run, look, width) {
    const span = view.to - view.from, from = view.from - span / 2, to = view.to + span / 2;
    const found = bars(run, from, to, span / Math.max(width - 100, 100));
    const inSight = Object.values(found).flat();
    const detailed = inSight.length <= LABELLED;
    const traces = Object.entries(found).map(([kind, list]) => ({
      type: "bar", orientation: "h", width: 0.62, marker: { color: look[kind], line: { width: detailed ? 1 : 0, color: look.page } },
      base: list.map((bar) => bar.start), x: list.map((bar) => bar.end - bar.start), y: list.map((bar) => bar.row),
      text: detailed ? list.map((bar) => run.tasks[run.ran.task[bar.index]]) : [], textposition: detailed ? "inside" : "none",
      insidetextanchor: "middle", textangle: 0, insidetextfont: { color: kind === "open" ? "#10141c" : "#ffffff" },
      hovertext: list.map((bar) => bar.jobs > 1 ? `${bar.jobs} short jobs: zoom in to tell them apart` : told(run, run.ran, bar.index)),
      hoverinfo: "text",
    }));
    const due = detailed ? inSight.filter((bar) => bar.jobs === 1) : [];
    traces.push({
      type: "scatter", mode: "markers", x: due.map((bar) => run.ran.deadline[bar.index]), y: due.map((bar) => bar.row - 0.42),
      marker: { symbol: "triangle-down", size: 8, color: due.map((bar) => kindOf(run.ran.fate[bar.index]) === "missed" ? look.missed : look.muted) },
      hovertext: due.map((bar) => "deadline of<br>" + told(run, run.ran, bar.index)), hoverinfo: "text",
    });
    const lost = run.idle.left.map((_, i) => i).filter((i) => run.idle.left[i] >= from && run.idle.left[i] <= to);
    traces.push({
      type: "scatter", mode: "markers", x: lost.map((i) => run.idle.left[i]), y: lost.map(() => run.resources.length),
      marker: { symbol: "x", size: 7, color: lost.map((i) => look[kindOf(run.idle.fate[i])]) },
      hovertext: lost.map((i) => told(run, run.idle, i)), hoverinfo: "text",
    });
    return traces;
  }

  function drawGantt(index, look) {
    const run = page.runs[index], plot = element("gantt-" + index);
    const rows = run.idle.left.length ? [...run.resources, NEVER] : run.resources;
    const layout = dressed({
      height: 76 + 48 * rows.length, showlegend: false, barmode: "overlay", dragmode: "pan",
      uniformtext: { mode: "hide", minsize: 9 }, hovermode: "closest", bargap: 0,
      xaxis: { title: { text: `time (${page.unit})` }, range: [view.from, view.to] },
      yaxis: { tickvals: rows.map((_, row) => row), ticktext: rows, range: [rows.length - 0.5, -0.6], fixedrange: true, zeroline: false },
    }, look, plot.clientWidth);
    return Plotly.react(plot, ganttTraces(run, look, plot.clientWidth), layout, CONFIG);
  }

  // The line of waiting jobs moves with the Gantt charts.
  function drawWaiting(look) {
    const { data, layout } = page.waiting;
    drawFigure("waiting", look, { data, layout: { ...layout, dragmode: "pan", xaxis: { ...layout.xaxis, range: [view.from, view.to] } } });
  }

  function show(from, to) {
    const span = Math.min(Math.max(to - from, page.end * 1e-6), page.end);
    view.from = round(Math.min(Math.max(from, 0), page.end - span));
    view.to = round(view.from + span);
    const look = theme();
    page.runs.forEach((_, index) => drawGantt(index, look));
    drawWaiting(look);
    const slider = element("position"), room = page.end - span;
    slider.disabled = room <= 0;
    slider.value = room > 0 ? (1000 * view.from) / room : 0;
    element("window").textContent = `${round(view.from).toLocaleString("en")} to ${round(view.to).toLocaleString("en")} of ${page.end.toLocaleString("en")} ${page.unit}`;
  }

  function zoom(factor) {
    const middle = (view.from + view.to) / 2, half = ((view.to - view.from) * factor) / 2;
    show(middle - half, middle + half);
  }

  function listen() {
    element("position").addEventListener("input", (event) => {
      const span = view.to - view.from, from = (event.target.value / 1000) * (page.end - span);
      show(from, from + span);
    });
    element("closer").addEventListener("click", () => zoom(0.5));
    element("wider").addEventListener("click", () => zoom(2));
    element("whole").addEventListener("click", () => show(0, page.end));
    ["waiting", ...page.runs.map((_, index) => "gantt-" + index)].forEach((id) => element(id).on("plotly_relayout", (change) => {
      if ("xaxis.range[0]" in change) show(change["xaxis.range[0]"], change["xaxis.range[1]"]);
    }));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    addEventListener("beforeprint", () => { printing = true; drawAll(); });
    addEventListener("afterprint", () => { printing = false; drawAll(); });
  }

  function drawAll() {
    const look = theme();
    show(view.from, view.to);
    Object.keys(page.figures).forEach((id) => drawFigure(id, look));
  }

  drawAll();
  listen();
  document.documentElement.dataset.drawn = "yes";
})();
