"use strict";
// Curves and points on a canvas with a key below it: training curves, distributions, two metrics against each other.
const plot = (() => {
  const { PALETTE, make, fill, look, short } = tools;
  const HEIGHT = 320, LEFT = 64, RIGHT = 16, TOP = 12, BOTTOM = 46;
  const QUIET = [5, 4];
  const DASHES = [[], [7, 4], [2, 3]];
  const drawn = new Map(); // holders and what they show, to be drawn again when the size or the colours change

  // A series: { label, x, y, mark: "line" | "step" | "points", quiet: true for a plain dashed line }.
  function show(holder, series, { xTitle, yTitle, percent = false, label, fromZero = false }) {
    holder.classList.add("chart");
    const canvas = make("canvas", { role: "img", "aria-label": label });
    const key = make("ul", { class: "legend" });
    series.forEach((one, index) => key.append(make("li", {}, sample(index, one.quiet), one.label)));
    fill(holder, canvas, key);
    drawn.set(holder, () => draw(holder, canvas, series, { xTitle, yTitle, percent, fromZero }));
    drawn.get(holder)();
  }

  function sample(index, quiet) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), line = document.createElementNS(svg.namespaceURI, "line");
    Object.entries({ width: 22, height: 10, "aria-hidden": "true" }).forEach(([name, value]) => svg.setAttribute(name, value));
    const line_look = { x1: 0, x2: 22, y1: 5, y2: 5, stroke: quiet ? "gray" : colourOf(index), "stroke-width": quiet ? 2 : 3, "stroke-dasharray": (quiet ? QUIET : dashOf(index)).join(" ") };
    Object.entries(line_look).forEach(([name, value]) => line.setAttribute(name, value));
    svg.append(line);
    return svg;
  }

  const colourOf = (index) => PALETTE[index % PALETTE.length];
  const dashOf = (index) => DASHES[Math.floor(index / PALETTE.length) % DASHES.length];

  function range(values, fromZero) {
    let low = Infinity, high = -Infinity;
    for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
    if (!(low <= high)) return [0, 1];
    if (fromZero) low = Math.min(low, 0);
    const margin = (high - low || Math.abs(high) || 1) * 0.06;
    return [fromZero && low === 0 ? 0 : low - margin, high + margin];
  }

  function ticks([from, to], most) {
    const rough = (to - from) / most, size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * size).find((one) => one >= rough);
    const found = [];
    for (let n = Math.ceil(from / step); n * step <= to; n++) found.push(Number((n * step).toPrecision(12)));
    return found;
  }

  function draw(holder, canvas, series, { xTitle, yTitle, percent, fromZero }) {
    const width = Math.max(holder.clientWidth, 220), scale = Math.max(devicePixelRatio || 1, 1), colours = look();
    canvas.width = width * scale; canvas.height = HEIGHT * scale;
    canvas.style.width = width + "px"; canvas.style.height = HEIGHT + "px";
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "12px system-ui, sans-serif";
    const xs = range(series.flatMap((one) => one.x), fromZero), ys = percent ? [0, 1.03] : range(series.flatMap((one) => one.y), false);
    const x = (value) => LEFT + ((value - xs[0]) / (xs[1] - xs[0])) * (width - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - ((value - ys[0]) / (ys[1] - ys[0])) * (HEIGHT - BOTTOM - TOP);
    pen.strokeStyle = colours.line; pen.fillStyle = colours.muted;
    pen.textAlign = "center";
    for (const tick of ticks(xs, width / 110)) { line(pen, x(tick), TOP, x(tick), HEIGHT - BOTTOM); pen.fillText(short(tick), x(tick), HEIGHT - BOTTOM + 16); }
    pen.fillText(xTitle, (LEFT + width - RIGHT) / 2, HEIGHT - 8);
    pen.textAlign = "right";
    for (const tick of ticks(ys, 6)) { line(pen, LEFT, y(tick), width - RIGHT, y(tick)); pen.fillText(percent ? `${Math.round(100 * tick)}%` : short(tick), LEFT - 6, y(tick) + 4); }
    pen.save(); pen.translate(12, (TOP + HEIGHT - BOTTOM) / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center"; pen.fillText(yTitle, 0, 0); pen.restore();
    series.forEach((one, index) => trace(pen, one, index, x, y, colours));
  }

  function line(pen, fromX, fromY, toX, toY) {
    pen.beginPath(); pen.moveTo(fromX, fromY); pen.lineTo(toX, toY); pen.stroke();
  }

  function trace(pen, one, index, x, y, colours) {
    pen.strokeStyle = pen.fillStyle = one.quiet ? colours.muted : colourOf(index);
    pen.lineWidth = 2;
    pen.setLineDash(one.quiet ? QUIET : dashOf(index));
    if (one.mark === "points") {
      one.x.forEach((value, n) => {
        pen.beginPath(); pen.arc(x(value), y(one.y[n]), 5, 0, 7); pen.fill();
        pen.fillStyle = colours.text; pen.textAlign = x(value) > pen.canvas.clientWidth - 110 ? "right" : "left";
        pen.fillText(one.label, x(value) + (pen.textAlign === "left" ? 8 : -8), y(one.y[n]) - 6);
      });
    } else {
      pen.beginPath();
      one.x.forEach((value, n) => {
        if (!n) pen.moveTo(x(value), y(one.y[n]));
        else if (one.mark === "step") { pen.lineTo(x(value), y(one.y[n - 1])); pen.lineTo(x(value), y(one.y[n])); }
        else pen.lineTo(x(value), y(one.y[n]));
      });
      pen.stroke();
      if (one.x.length === 1) { pen.beginPath(); pen.arc(x(one.x[0]), y(one.y[0]), 3, 0, 7); pen.fill(); }
    }
    pen.setLineDash([]); pen.lineWidth = 1;
  }

  const drawAll = () => drawn.forEach((again, holder) => holder.clientWidth && again());
  addEventListener("resize", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  return { show };
})();
