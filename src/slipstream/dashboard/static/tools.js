"use strict";
// Shared by all pages: elements, requests to the server, colours, numbers.
const tools = (() => {
  const PALETTE = ["#4c8dd6", "#e2843b", "#3fa878", "#c65d9b", "#8e7cc3", "#b8a03e", "#41aebb", "#9a8478"];
  const byId = (id) => document.getElementById(id);

  // make("td", { class: "text" }, "words", another): text is always text, never HTML.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null));
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
      throw new Error("The dashboard does not answer. Is `slipstream dashboard` still running?");
    }
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error || `The dashboard answered ${response.status}.`);
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

  const decimals = (value) => (Math.abs(value) < 10 ? 3 : Math.abs(value) < 1000 ? 1 : 0);
  const figure = (value, digits = decimals(value)) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const short = (value) => Number(value.toPrecision(5)).toLocaleString("en", { maximumFractionDigits: 6 });
  const words = (metric) => metric.replaceAll("_", " ");

  return { PALETTE, byId, make, fill, address, ask, send, tell, attempt, look, figure, decimals, short, words };
})();
