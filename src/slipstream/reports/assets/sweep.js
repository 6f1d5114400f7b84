"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = { seed: "--open", mean: "--on-time", default: "--full", heuristic: "--missed" };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function painted(trace) {
    const own = colour(COLOURS[trace.meta.role]);
    return { ...trace, line: { ...trace.line, color: own }, marker: { ...trace.marker, color: own } };
  }

  function dressed(layout) {
    const axis = { gridcolor: colour("--line"), zeroline: false, linecolor: colour("--line"), automargin: true };
    return {
      ...layout,
      margin: { l: 50, r: 12, t: 12, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 13, color: colour("--text") },
      hoverlabel: { bgcolor: colour("--panel"), bordercolor: colour("--line"), font: { color: colour("--text") } },
      xaxis: { ...axis, ...layout.xaxis },
      yaxis: { ...axis, ...layout.yaxis },
    };
  }

  function draw() {
    for (const [id, figure] of Object.entries(page.figures)) {
      const config = { responsive: true, displayModeBar: false };
      Plotly.react(document.getElementById(id), figure.data.map(painted), dressed(figure.layout), config);
    }
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.documentElement.dataset.drawn = "yes";
})();
