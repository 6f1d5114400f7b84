"use strict";
// One window of time that several charts share. A slider, buttons, dragging a chart and the mouse wheel move it;
// pointing at a chart describes what lies there. The report and the dashboard have the same controls, by their ids.
// `look()` returns the colours, `printing()` whether the page is on its way to paper; `moved(view)` is called at every move;
// an abort `signal` removes all listeners.
const TIME_UNITS = [["µs", 1e-6, 1e-3], ["ms", 1e-3, 1], ["s", 1, 7200], ["h", 3600, 259200], ["days", 86400, Infinity]];

// Returns a window of time in words, as in "0–200 ms of 10 s"; each length in the unit that suits it.
function windowText(from, to, end, unit) {
  const seconds = { us: 1e-6, ms: 1e-3, s: 1 }[unit] || 1;
  const unitOf = (time) => TIME_UNITS.find(([, , below]) => time * seconds < below);
  const number = (value, digits) => value.toLocaleString("en", { maximumFractionDigits: digits });
  const digitsOf = (value) => Math.min(Math.max(2 - Math.floor(Math.log10(value || 1)), 0), 9); // three significant ones
  const [name, size] = unitOf(to), [endName, endSize] = unitOf(end), length = (end * seconds) / endSize;
  const whole = `${number(length, digitsOf(length))} ${endName}`;
  if (from <= 0 && to >= end) return `the whole run (${whole})`;
  const scaled = [from, to].map((time) => (time * seconds) / size);
  const digits = digitsOf(scaled[1] - scaled[0]);
  return `${number(scaled[0], digits)}–${number(scaled[1], digits)} ${name} of ${whole}`;
}

function timeview(timed, page, { look, printing = () => false, moved = () => {}, signal }) {
  const view = { from: 0, to: innerWidth < 520 ? page.first / 2 : page.first };
  const element = (id) => document.getElementById(id);
  const on = (target, name, act) => target.addEventListener(name, act, { signal });
  const round = (time) => Number(time.toPrecision(7));

  function show(from, to) {
    const span = Math.min(Math.max(to - from, page.end * 1e-6), page.end);
    view.from = round(Math.min(Math.max(from, 0), page.end - span));
    view.to = round(view.from + span);
    moved(view);
    redraw();
    const slider = element("position"), rest = page.end - span;
    slider.disabled = rest <= 0;
    slider.value = rest > 0 ? (1000 * view.from) / rest : 0;
    element("window").textContent = windowText(view.from, view.to, page.end, page.unit);
    element("shares").hidden = !timed.some((chart) => chart.shares());
  }

  function redraw() {
    const colours = look();
    timed.forEach((chart) => chart.draw(view, colours, printing()));
  }

  function zoom(factor, middle = (view.from + view.to) / 2) {
    show(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
  }

  // Drag to move, double-click or turn the wheel to zoom, point to read.
  function follow(chart) {
    const canvas = chart.canvas, tip = element("tip"), data = canvas.parentElement.dataset;
    const perPixel = () => (data.to - data.from) / (data.right - data.left);
    let held = null;
    on(canvas, "pointerdown", (event) => {
      if (event.button) return;
      held = { x: event.clientX, from: view.from, to: view.to };
      tip.hidden = true;
    });
    on(window, "pointermove", (event) => {
      if (!held) return;
      const shift = (held.x - event.clientX) * perPixel();
      show(held.from + shift, held.to + shift);
    });
    ["pointerup", "pointercancel"].forEach((name) => on(window, name, () => { held = null; }));
    on(canvas, "pointermove", (event) => held || point(event));
    on(canvas, "pointerleave", () => { tip.hidden = true; if (chart.mark(null)) redraw(); });
    on(canvas, "dblclick", (event) => zoom(0.5, Number(data.from) + (event.offsetX - data.left) * perPixel()));

    canvas.addEventListener("wheel", (event) => {
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
      const closer = event.deltaY < 0, whole = view.to - view.from >= page.end * (1 - 1e-9);
      if (!closer && whole) return; // the page scrolls on
      event.preventDefault();
      event.stopPropagation();
      tip.hidden = true;
      zoom(closer ? 0.8 : 1.25, Number(data.from) + (event.offsetX - data.left) * perPixel());
    }, { signal, passive: false });

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

  on(element("position"), "input", (event) => {
    const span = view.to - view.from, from = (event.target.value / 1000) * (page.end - span);
    show(from, from + span);
  });
  on(element("closer"), "click", () => zoom(0.5));
  on(element("wider"), "click", () => zoom(2));
  on(element("whole"), "click", () => show(0, page.end));
  timed.forEach(follow);
  on(window, "resize", redraw);
  return { view, show, zoom, redraw };
}
