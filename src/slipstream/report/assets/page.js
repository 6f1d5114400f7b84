"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const PALETTE = ["#4c8dd6", "#e2843b", "#3fa878", "#c65d9b", "#8e7cc3", "#b8a03e", "#41aebb", "#9a8478"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const CONFIG = { responsive: true, displayModeBar: false };
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
    const own = PALETTE[trace.meta.colour % PALETTE.length];
    if (trace.type === "bar") return { ...trace, marker: { color: own } };
    const dash = DASHES[Math.floor(trace.meta.colour / PALETTE.length) % DASHES.length];
    const marker = { ...trace.marker, color: own, line: { width: 1, color: look.text } };
    return { ...trace, line: { width: 2, dash, ...trace.line, color: own }, marker };
  }

  function drawFigure(id, look) {
    const { data, layout } = page.figures[id], plot = element(id);
    return Plotly.react(plot, data.map((trace) => painted(trace, look)), dressed(layout, look, plot.clientWidth), CONFIG);
  }

  // Charts over time: all of the run is in the page, what is in sight is drawn.

  const timed = [
    ...page.runs.map((run, index) => charts.gantt(element("gantt-" + index), run, page)),
    charts.waiting(element("waiting"), page.waiting, page, PALETTE),
  ];

  function show(from, to) {
    const span = Math.min(Math.max(to - from, page.end * 1e-6), page.end);
    view.from = round(Math.min(Math.max(from, 0), page.end - span));
    view.to = round(view.from + span);
    redraw();
    const slider = element("position"), room = page.end - span;
    slider.disabled = room <= 0;
    slider.value = room > 0 ? (1000 * view.from) / room : 0;
    const words = [view.from, view.to, page.end].map((time) => round(time).toLocaleString("en"));
    element("window").textContent = `${words[0]} to ${words[1]} of ${words[2]} ${page.unit}`;
    element("shares").hidden = !timed.some((chart) => chart.shares());
  }

  function redraw() {
    const look = theme();
    timed.forEach((chart) => chart.draw(view, look, printing));
  }

  function zoom(factor, middle = (view.from + view.to) / 2) {
    show(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
  }

  // Drag to move, double-click to come closer, point to read.
  function follow(chart) {
    const canvas = chart.canvas, tip = element("tip"), data = canvas.parentElement.dataset;
    const perPixel = () => (data.to - data.from) / (data.right - data.left);
    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      held = { x: event.clientX, from: view.from, to: view.to };
      tip.hidden = true;
    });
    addEventListener("pointermove", (event) => {
      if (!held) return;
      const shift = (held.x - event.clientX) * perPixel();
      show(held.from + shift, held.to + shift);
    });
    ["pointerup", "pointercancel"].forEach((name) => addEventListener(name, () => { held = null; }));
    canvas.addEventListener("pointermove", (event) => held || point(event));
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; if (chart.mark(null)) redraw(); });
    canvas.addEventListener("dblclick", (event) => zoom(0.5, Number(data.from) + (event.offsetX - data.left) * perPixel()));

    function point(event) {
      const found = chart.find(event.offsetX, event.offsetY);
      if (chart.mark(found && found.job !== undefined ? found.job : null)) redraw();
      tip.hidden = !found;
      if (!found) return;
      tip.textContent = found.lines.join("\n");
      const left = Math.min(event.pageX + 14, scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8);
      tip.style.left = Math.max(left, 4) + "px";
      tip.style.top = event.pageY + 18 + "px";
    }
  }

  function listen() {
    element("position").addEventListener("input", (event) => {
      const span = view.to - view.from, from = (event.target.value / 1000) * (page.end - span);
      show(from, from + span);
    });
    element("closer").addEventListener("click", () => zoom(0.5));
    element("wider").addEventListener("click", () => zoom(2));
    element("whole").addEventListener("click", () => show(0, page.end));
    timed.forEach(follow);
    addEventListener("resize", redraw);
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
