"use strict";
// Curves, points and bars by plotly.js, which is loaded when the first chart is wanted: it is large, and the replay does
// without it.
const plot = (() => {
  const { PALETTE, make, look } = tools;
  const HEIGHT = 340, NARROW = 520;
  const DASHES = ["solid", "dash", "dot"];
  const drawn = new Map(); // holders and what they show, to be drawn again when the colours change
  let library = null;

  function load() {
    library ||= new Promise((done, failed) => {
      // plotly.js writes the styles of its maps into the page, unless an element with their digest as its id is there
      // already. The page's security policy refuses them, and no page draws a map.
      document.getElementById = (id) => (/^[0-9a-f]{64}$/.test(id) ? document.head : Document.prototype.getElementById.call(document, id));
      const script = make("script", { src: "/static/plotly.js" });
      const end = (then) => () => { delete document.getElementById; then(); };
      script.addEventListener("load", end(() => done(window.Plotly)));
      script.addEventListener("error", end(() => { library = null; failed(new Error("The chart library could not be loaded. Refresh the page to try again.")); }));
      document.head.append(script);
    });
    return library;
  }

  const dashOf = (index) => DASHES[Math.floor(index / PALETTE.length) % DASHES.length];

  // plotly.js takes some HTML in texts: names are shown as they are.
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  // A series: { label, x, y, mark: "line" | "step" | "points" | "bar", colour: index, quiet: dashed, faint: behind
  // another, low, high: ends of an interval along x, named: text beside the points, side: where the text is }.
  function traceOf(one, index, colours) {
    const number = one.colour === undefined ? index : one.colour, colour = number < 0 ? colours.muted : charts.lineColour(number);
    const trace = { x: one.x, y: one.y, name: plain(one.label), type: "scatter", showlegend: !one.hidden, hoverinfo: one.faint ? "skip" : undefined, opacity: one.faint ? 0.3 : 1 };
    if (one.mark === "points") {
      Object.assign(trace, { mode: one.named ? "markers+text" : "markers", marker: { color: colour, size: 10 }, text: one.named ? one.x.map(() => plain(one.named)) : undefined, textposition: `top ${one.side || "center"}`, cliponaxis: false });
      if (one.low) trace.error_x = { type: "data", symmetric: false, array: one.high.map((high, n) => high - one.x[n]), arrayminus: one.low.map((low, n) => one.x[n] - low), color: colour, thickness: 1.5 };
      return trace;
    }
    const mode = one.x.length === 1 ? "markers" : "lines";
    return { ...trace, mode, line: { color: colour, width: one.quiet ? 1.5 : 2, dash: one.quiet ? "dash" : dashOf(Math.max(number, 0)), shape: one.mark === "step" ? "hv" : "linear" }, marker: { color: colour } };
  }

  function layoutOf({ xTitle, yTitle, xRange, yRange, percent, fromZero, categories, height, unified }, colours, width) {
    const named = (text) => ({ text: plain(text), font: { size: 12, color: colours.muted }, standoff: 8 });
    const axis = { gridcolor: colours.line, linecolor: colours.line, zeroline: false, automargin: true, ticks: "", separatethousands: true, exponentformat: "none" };
    return {
      height: height || HEIGHT, autosize: true, margin: { l: 56, r: 14, t: 10, b: 44 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: width < NARROW ? 11 : 13, color: colours.text },
      hovermode: unified ? "x unified" : "closest", hoverlabel: { bgcolor: colours.panel, bordercolor: colours.line, font: { color: colours.text } },
      legend: { orientation: "h", x: 0, y: 1.01, yanchor: "bottom" }, dragmode: width < NARROW ? false : "zoom",
      xaxis: { ...axis, title: named(xTitle), rangemode: fromZero ? "tozero" : "normal", ...(xRange ? { range: xRange } : {}) },
      yaxis: { ...axis, title: named(yTitle), rangemode: fromZero ? "nonnegative" : "normal", ...(yRange ? { range: yRange } : {}), ...(percent ? { tickformat: ".0%", range: [0, 1.03] } : {}), ...(categories ? { type: "category", categoryorder: "array", categoryarray: categories, title: {} } : {}) },
    };
  }

  async function show(holder, series, options) {
    holder.setAttribute("role", "img");
    holder.setAttribute("aria-label", options.label);
    holder.classList.add("chart");
    drawn.set(holder, { series, options });
    const plotly = await load();
    const latest = drawn.get(holder); // of two that were asked for while the library came, the last counts
    await draw(plotly, holder, latest);
  }

  async function draw(plotly, holder, { series, options }) {
    const colours = look();
    await plotly.react(holder, series.map((one, index) => traceOf(one, index, colours)), layoutOf(options, colours, holder.clientWidth), { responsive: true, displayModeBar: false });
    holder.dataset.series = series.filter((one) => !one.hidden).map((one) => one.label).join("|");
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.Plotly && drawn.forEach((what, holder) => draw(window.Plotly, holder, what)));

  return { show };
})();
