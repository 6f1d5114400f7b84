"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const PALETTE = charts.PALETTE;
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const CONFIG = { responsive: true, displayModeBar: false };
  let printing = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const element = (id) => document.getElementById(id);

  function theme() {
    const names = ["page", "text", "muted", "line", "panel", "on-time", "missed", "open", "empty", "full"];
    const found = Object.fromEntries(names.map((name) => [name, colour("--" + name)]));
    return printing ? { ...found, page: "#fff", text: "#000", muted: "#444", line: "#ccc", panel: "#fff", empty: "#f1f3f6", full: "#b3460f" } : found;
  }

  function dressed(layout, look, width) {
    const axis = { gridcolor: look.line, zerolinecolor: look.line, linecolor: look.line, automargin: true, separatethousands: true, exponentformat: "none", title: { standoff: 8 } };
    const narrow = width < 520;
    return {
      height: 340,
      margin: { l: 50, r: narrow ? 8 : 20, t: 12, b: 40 },
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
    if (trace.type === "bar") return { ...trace, marker: { color: PALETTE[trace.meta.colour % PALETTE.length] } };
    const own = charts.lineColour(trace.meta.colour);
    const dash = DASHES[Math.floor(trace.meta.colour / PALETTE.length) % DASHES.length];
    const marker = { ...trace.marker, color: own, line: { width: 1, color: look.text } };
    return { ...trace, line: { width: 2, dash, ...trace.line, color: own }, marker };
  }

  // The longest time of a chart whose x axis is a length of time.
  const longest = ({ data }) => data.reduce((most, trace) => Math.max(most, ...trace.x), 0);
  const timesOf = (axis, id, from, to) => charts.timeAxis(axis, page.unit, from, to, element(id).clientWidth / 110);

  const overTime = (id) => (page.figures[id].layout.meta || {}).over_time === true;

  function drawFigure(id, look) {
    const { data, layout } = page.figures[id], plot = element(id);
    const laid = dressed(layout, look, plot.clientWidth);
    if (overTime(id)) {
      laid.xaxis = { ...laid.xaxis, range: [sight.view.from, sight.view.to], ...timesOf(laid.xaxis, id, sight.view.from, sight.view.to) };
      laid.yaxis = { ...laid.yaxis, fixedrange: true };
    } else if ((layout.meta || {}).length_of_time) {
      laid.xaxis = { ...laid.xaxis, ...timesOf(laid.xaxis, id, 0, longest(page.figures[id])) };
    }
    return Plotly.react(plot, data.map((trace) => painted(trace, look)), laid, CONFIG);
  }

  // Time axes are linked: the charts on canvas follow at once, those of Plotly when the motion pauses.

  const PAUSE_MS = 120;
  const linked = Object.keys(page.figures).filter(overTime);
  let pausing = null, following = false;

  function inView(id) {
    const { from, to } = sight.view, { tickvals, ticktext, title } = timesOf(page.figures[id].layout.xaxis, id, from, to);
    return { "xaxis.range": [from, to], "xaxis.tickvals": tickvals, "xaxis.ticktext": ticktext, "xaxis.title.text": title.text };
  }

  function follow() {
    clearTimeout(pausing);
    pausing = setTimeout(async () => {
      following = true;
      await Promise.all(linked.map((id) => Plotly.relayout(element(id), inView(id))));
      following = false;
    }, PAUSE_MS);
  }

  function lead(change) {
    if (following) return;
    if (change["xaxis.autorange"]) sight.show(0, page.end);
    else if (change["xaxis.range[0]"] !== undefined) sight.show(Number(change["xaxis.range[0]"]), Number(change["xaxis.range[1]"]));
  }

  // Charts over time: all of the run is in the page, what is in sight is drawn.

  const timed = [
    ...page.runs.map((run, index) => charts.gantt(element("gantt-" + index), run, page)),
    ...(page.waiting.length ? [charts.waiting(element("waiting"), page.waiting, page, PALETTE)] : []),
  ];
  const sight = timeview(timed, page, { look: theme, printing: () => printing, moved: follow });

  function listen() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    addEventListener("beforeprint", () => { printing = true; drawAll(); });
    addEventListener("afterprint", () => { printing = false; drawAll(); });
  }

  function drawAll() {
    const look = theme();
    sight.show(sight.view.from, sight.view.to);
    Object.keys(page.figures).forEach((id) => drawFigure(id, look));
  }

  drawAll();
  linked.forEach((id) => element(id).on("plotly_relayout", lead));
  listen();
  finder(page, timed, sight);
  saving(page, theme);
  document.documentElement.dataset.drawn = "yes";
})();
