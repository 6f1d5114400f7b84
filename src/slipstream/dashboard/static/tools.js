"use strict";
// Shared by all pages: elements, requests to the server, colours, numbers, times, sortable tables.
const tools = (() => {
  const PALETTE = charts.PALETTE;
  const byId = (id) => document.getElementById(id);

  // make("td", { class: "text" }, "words", another): text is always text, never HTML.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  const fill = (element, ...children) => element.replaceChildren(...children);

  function address(path, parameters = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) [value].flat().forEach((one) => query.append(name, one));
    return query.size ? `${path}?${query}` : path;
  }

  // Returns the answer, or throws what the server says is wrong.
  async function ask(path, parameters, options) {
    let response;
    try {
      response = await fetch(address(path, parameters), options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The dashboard does not respond. Is `slipstream dashboard` still running?");
    }
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error || `The dashboard responded with status ${response.status}.`);
    return answer;
  }

  const send = (path, body, options = {}) => ask(path, {}, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, ...options });

  const tell = (text) => { byId("status").textContent = text; };

  // Runs some work of a page; errors are shown at the top of the page.
  async function attempt(work) {
    try {
      tell("");
      return await work();
    } catch (error) {
      if (error.name !== "AbortError") tell(error.message);
      return undefined;
    }
  }

  function look() {
    const style = getComputedStyle(document.documentElement);
    const names = ["page", "text", "muted", "line", "panel", "on-time", "missed", "open", "empty", "full"];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
  }

  // Numbers ----------------------------------------------------------------------------------------------------------

  const decimals = (value) => (Math.abs(value) < 10 ? 3 : Math.abs(value) < 1000 ? 1 : 0);
  // No minus sign where the number is rounded to zero.
  const figure = (value, digits = decimals(value)) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits, signDisplay: "negative" });
  const short = (value) => Number(value.toPrecision(5)).toLocaleString("en", { maximumFractionDigits: 6 });
  const value = (number) => (number === null || number === undefined ? "–" : figure(number, Number.isInteger(number) ? 0 : undefined));
  const words = (metric) => metric.replace("on_time", "on-time").replaceAll("_", " ").replace(/\b(jct|antt|stp|co2|ttft|tpot|itl|e2e|slo|kv)\b/, (name) => name.toUpperCase());
  const UNITS = { ms: "ms", s: "s", us: "µs", hz: "per s", mb: "MB", gb: "GB", kwh: "kWh", j: "J", w: "W", kg: "kg" };

  // "response_p99_ms" becomes "response p99 (ms)".
  function metricName(metric) {
    const [whole, ...part] = metric.split("/"), rate = whole.match(/^(.+)_per_([sh])$/), parts = whole.split("_");
    const unit = rate ? `per ${rate[2]}` : parts.length > 1 && UNITS[parts.at(-1)], name = rate ? rate[1] : parts.slice(0, -1).join("_");
    return unit ? `${[words(name), ...part].join("/")} (${unit})` : words(metric);
  }

  const algorithm = (name) => ({ ppo: "PPO", reinforce: "REINFORCE" }[name] || name); // as papers write it

  // What is better of a metric that the server describes.
  const direction = ({ lower, neutral }) => (neutral ? "neither more nor less is better" : lower ? "less is better" : "more is better");

  const counted = (count, noun, plural = `${noun}s`) => `${count.toLocaleString("en")} ${count === 1 ? noun : plural}`;

  // A mean, with half of its interval where there are several episodes.
  const estimate = ({ mean, low, high, episodes }) => (episodes > 1 ? `${figure(mean)} ± ${figure((high - low) / 2, decimals(mean))}` : value(mean));

  // Times ------------------------------------------------------------------------------------------------------------

  // 10000 ms becomes "10 s", in the units of the time axis.
  function duration(time, unit) {
    const seconds = time * ({ us: 1e-6, ms: 1e-3 }[unit] || 1), [name, size] = TIME_UNITS.find(([, , below]) => seconds < below);
    return `${Number((seconds / size).toPrecision(3)).toLocaleString("en")} ${name}`;
  }

  // The time of the day, or the date of an earlier one.
  function when(seconds) {
    const date = new Date(1000 * seconds), days = (Date.now() - date) / 86400e3;
    const words = days < 1 ? date.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false }) : date.toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
    return make("time", { datetime: date.toISOString(), title: date.toLocaleString() }, words);
  }

  // Curves over lengths of time in the unit that suits the longest one, and its name.
  function timeCurves(curves, unit) {
    const longest = Math.max(0, ...curves.map((one) => Math.max(0, ...one.x))), [name, size] = charts.axisUnit(unit, longest);
    return [curves.map((one) => ({ ...one, x: one.x.map((time) => time / size) })), name];
  }

  // Tables -----------------------------------------------------------------------------------------------------------

  // A table whose columns sort it. A column: { key, label, cell(row), value(row), lower, text, title }; `value` is what it
  // sorts by, and `lower` says that the first click brings the lowest to the top. `state` is { key, down }, kept by the
  // caller; `before(column)` is awaited before rows are sorted.
  function sortable({ label, columns, rows, state, before, rowOf }) {
    const head = make("tr"), body = make("tbody"), table = make("table", { class: "data" }, make("thead", {}, head), body);
    const cells = columns.map((column) => {
      const cell = make("th", { scope: "col", class: column.text ? "text" : null, title: column.title });
      if (column.value) cell.append(make("button", { type: "button", class: "sort", onclick: () => attempt(() => sort(column)) }, column.label));
      else cell.append(column.hidden ? make("span", { class: "hidden-text" }, column.label) : column.label);
      head.append(cell);
      return cell;
    });
    const drawn = new Map(rows.map((row) => [row, rowOf(row, columns)]));

    async function sort(column) {
      state.down = state.key === column.key ? !state.down : !column.lower;
      state.key = column.key;
      if (before) await before(column);
      place();
    }

    function place() {
      const column = columns.find((one) => one.key === state.key && one.value);
      columns.forEach((one, n) => { if (one === column) cells[n].setAttribute("aria-sort", state.down ? "descending" : "ascending"); else cells[n].removeAttribute("aria-sort"); });
      const ordered = column ? [...rows].sort((a, b) => order(column.value(a), column.value(b), state.down)) : rows;
      fill(body, ...ordered.map((row) => drawn.get(row)));
    }

    place();
    return { element: make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table), table, sort: place };
  }

  // Values that are absent come last, whichever way the others go.
  function order(a, b, down) {
    const missing = (one) => one === null || one === undefined || one === "" || Number.isNaN(one);
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    const sign = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return down ? -sign : sign;
  }

  return { PALETTE, byId, make, fill, address, ask, send, tell, attempt, look, figure, decimals, short, value, words, metricName, direction, counted, algorithm, estimate, duration, when, timeCurves, sortable };
})();
