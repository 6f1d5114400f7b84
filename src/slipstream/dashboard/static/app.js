"use strict";
// Which page is shown: the part of the address behind the #, such as #replay?run=a.parquet.
(() => {
  const { byId, attempt } = tools;
  const pages = { runs: runsPage, compare: comparePage, replay: replayPage, try: tryPage, device: devicePage, queue: queuePage };
  let current = null;

  function wanted() {
    const [name, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
    const parameters = {};
    for (const [key, value] of new URLSearchParams(query)) parameters[key] = key in parameters ? [parameters[key], value].flat() : value;
    return [name || "runs", parameters];
  }

  async function go() {
    const [name, parameters] = wanted();
    if (!pages[name]) return; // a place within the page
    if (current) pages[current].close();
    current = name;
    for (const one of Object.keys(pages)) byId(`page-${one}`).hidden = one !== name;
    document.querySelectorAll("nav a").forEach((link) => { if (link.hash === `#${name}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current"); });
    document.title = `${byId(`${name}-title`).textContent} · Slipstream`;
    document.documentElement.dataset.ready = "";
    await attempt(() => pages[name].open(parameters));
    document.documentElement.dataset.ready = name; // the first picture stands
  }

  addEventListener("hashchange", go);
  go();
})();
