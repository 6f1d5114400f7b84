"use strict";
// One window of time that several charts share. A slider, buttons and dragging a chart move it;
// pointing at a chart describes what lies there. The report and the dashboard have the same controls, by their ids.
// `look()` returns the colours, `printing()` whether the page is on its way to paper; `moved(view)` is called at every move;
// an abort `signal` removes all listeners.
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
    const words = [view.from, view.to, page.end].map((time) => round(time).toLocaleString("en"));
    element("window").textContent = `${words[0]} to ${words[1]} of ${words[2]} ${page.unit}`;
    element("shares").hidden = !timed.some((chart) => chart.shares());
  }

  function redraw() {
    const colours = look();
    timed.forEach((chart) => chart.draw(view, colours, printing()));
  }

  function zoom(factor, middle = (view.from + view.to) / 2) {
    show(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
  }

  // Drag to move, double-click to come closer, point to read.
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
