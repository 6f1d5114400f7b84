"use strict";
// The page Replay: any recorded run, at any zoom, and every choice with its alternatives.
// The server sends windows of the run. What is in sight is drawn from the best window at hand, at once; a better one is
// requested in the background, so that moving never waits.
const replayPage = (() => {
  const { PALETTE, byId, make, fill, ask, address, attempt, look, short, duration, counted } = tools;
  const OVERVIEW_COLUMNS = 2048, COLUMN = 5, FEWEST_PIXELS = 4, REFRESH_MS = 250, MOST_GROUPS = 12, MOST_LISTED = 12, UNITLESS = ["", "id", "flag", "number", "ratio", "index"];
  const REAL = { candidates: [], note: "This run was executed on real hardware: the simulator cannot reconstruct its decisions. The page Device shows it beside its simulation" };
  let run = null, page = null, sight = null, gantt = null, waiting = null, ending = null;
  let overview = null, near = null, loaded = null, asking = false;
  let choice = null, playing = null, cursorAsked = null;

  async function open({ run: name, at }) {
    // A long log takes its time: the list is asked for beside it.
    const [{ runs }] = await Promise.all([ask("/api/runs"), name && name !== run ? show(name) : null]);
    const recorded = runs.filter((one) => one.kind === "run");
    const chosen = name || (recorded[0] && recorded[0].name);
    fill(byId("replay-run"), ...recorded.map((one) => make("option", { value: one.name, selected: one.name === chosen }, `${one.scenario}, ${one.policy}, seed ${one.seed} (${one.name})`)));
    byId("replay-empty").hidden = Boolean(chosen);
    if (chosen && chosen !== run) await show(chosen);
    if (chosen) setCursor(at === undefined ? sight.view.cursor : Number(at) || 0);
  }

  function close() {
    stop();
  }

  // A run ------------------------------------------------------------------------------------------------------------

  async function show(name) {
    byId("replay-body").hidden = true;
    forget();
    const about = await ask("/api/replay", { run: name });
    const whole = await windowOf(name, 0, about.end, OVERVIEW_COLUMNS, 0);
    [page, run, near, overview] = [about, name, null, whole];
    byId("replay-body").hidden = false;
    byId("replay-about").textContent = `${page.scenario} under ${page.policy}, seed ${page.seed}${page.device ? `, real run on ${page.device}` : ", simulated"}: ${counted(page.jobs, page.nouns.job)}, ${counted(page.events, "event")}, ${duration(page.end, page.unit)}.`;
    byId("replay-command").textContent = page.command;
    drawKey();
    byId("cursor-unit").textContent = page.unit;
    byId("cursor").max = page.end;
    if (ending) ending.abort();
    ending = new AbortController();
    fill(byId("replay-gantt")); fill(byId("replay-waiting"));
    page.runs = [{ ...page, ...overview }];
    gantt = charts.gantt(byId("replay-gantt"), page.runs[0], page);
    const queue = page.jobs > 1; // one job alone has no queue to show
    byId("replay-waiting").hidden = byId("replay-waiting-title").hidden = !queue;
    byId("replay-waiting-title").textContent = `${page.nouns.job[0].toUpperCase()}${page.nouns.job.slice(1)}s waiting`;
    waiting = queue ? charts.waiting(byId("replay-waiting"), [overview.waiting], page, PALETTE) : null;
    const timed = [gantt, waiting].filter(Boolean);
    loaded = overview;
    sight = timeview(timed, page, { look, moved, signal: ending.signal });
    sight.view.cursor = 0;
    timed.forEach(({ canvas }) => onPress(canvas));
    sight.show(sight.view.from, sight.view.to);
  }

  // Nothing of the run before stays while the first decision is on its way.
  function forget() {
    choice = null;
    cursorAsked = null;
    fill(byId("moment")); fill(byId("situation"));
    fill(byId("candidates").tHead); fill(byId("candidates").tBodies[0]);
    byId("decision-lead").textContent = "Reconstructing the decision. The first decision of a family compiles its kernels, which takes up to a minute.";
    byId("decision-rule").textContent = "";
  }

  // What bars mean; of deadlines only where jobs have any.
  function drawKey() {
    const noun = page.nouns.job, entry = (mark, text) => make("li", {}, mark, text), sign = (kind, text) => make("i", { class: kind }, text);
    const swatches = page.groups.slice(0, MOST_GROUPS).map((name, n) => { const swatch = make("i"); swatch.style.background = charts.PALETTE[n % charts.PALETTE.length]; return entry(swatch, name); });
    if (page.groups.length > MOST_GROUPS) swatches.push(make("li", {}, `and ${page.groups.length - MOST_GROUPS} more; colours repeat`));
    if (page.deadlines) swatches.push(entry(sign("missed"), "missed its deadline"), entry(sign("sign", "▾"), `deadline of a ${noun} that ran here`));
    if (page.never) swatches.push(entry(sign("sign lost", "✕"), "left the queue without running"));
    fill(byId("replay-key"), ...swatches);
    byId("shares-text").textContent = page.deadlines ? `the height of the red part is the share of time spent on ${noun}s that missed their deadline, blue on all others; the rest is idle.` : "the height of the colour is the share of time in use; the rest is idle.";
  }

  const windowOf = (name, from, to, columns, detail) => ask("/api/window", { run: name, from, to, columns, detail });

  function moved(view) {
    const best = near && near.from <= view.from && near.to >= view.to ? near : overview;
    if (best !== loaded) {
      loaded = best;
      gantt.load(best);
      if (waiting) waiting.load([best.waiting]);
    }
    if (!good(view)) fetchNear();
  }

  // Whether the window at hand has all that is in sight, and not much more than that.
  const good = (view) => near && near.from <= view.from && near.to >= view.to && near.to - near.from <= 8 * (view.to - view.from);

  async function fetchNear() {
    if (asking) return; // the answer to the last question comes first; then the view may have moved on
    asking = true;
    const { from, to } = sight.view, span = to - from, of = run;
    const width = byId("replay-gantt").clientWidth;
    try {
      const piece = await windowOf(of, Math.max(from - span, 0), Math.min(to + span, page.end), Math.ceil((3 * width) / COLUMN), Math.ceil((3 * width) / FEWEST_PIXELS));
      if (of === run) near = piece;
    } catch (error) {
      tools.tell(error.message);
      return;
    } finally {
      asking = false;
    }
    sight.show(sight.view.from, sight.view.to);
  }

  // The cursor -------------------------------------------------------------------------------------------------------

  function onPress(canvas) {
    let from = 0;
    canvas.addEventListener("pointerdown", (event) => { from = event.clientX; }, { signal: ending.signal });
    canvas.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - from) > 3) return; // it was dragged
      const { from: begin, to, left, right } = canvas.parentElement.dataset;
      if (event.offsetX < left) return;
      setCursor(Number(begin) + ((event.offsetX - left) * (to - begin)) / (right - left));
    }, { signal: ending.signal });
  }

  function place(time) {
    sight.view.cursor = Math.min(Math.max(time, 0), page.end);
    byId("cursor").value = Number(sight.view.cursor.toPrecision(9));
    const { from, to } = sight.view;
    if (sight.view.cursor < from || sight.view.cursor > to) sight.show(sight.view.cursor - (to - from) / 10, sight.view.cursor + (0.9 * (to - from)));
    else sight.redraw();
  }

  function setCursor(time) {
    place(time);
    return showMoment({ at: sight.view.cursor });
  }

  // Asks for the choice at a time or of a number, and for what went on then; only the last question counts.
  async function showMoment(question) {
    const mine = (cursorAsked = {});
    const asked = run;
    await attempt(async () => {
      const decision = page.device ? REAL : await ask("/api/decision", { run: asked, ...question }).catch((error) => ({ candidates: [], note: error.message }));
      if (mine !== cursorAsked || asked !== run) return;
      choice = decision;
      if (question.number !== undefined && decision.time !== undefined) place(decision.time);
      const now = await ask("/api/moment", { run: asked, at: sight.view.cursor });
      if (mine !== cursorAsked || asked !== run) return;
      drawMoment(now);
      drawDecision(decision);
    });
  }

  function drawMoment(now) {
    // Of many resources those that are idle share a line.
    const many = now.resources.length > MOST_LISTED, shown = now.resources.filter(({ job }) => job || !many), idle = now.resources.length - shown.length;
    const busy = shown.slice(0, 64).map(({ name, job }) => make("tr", {}, make("th", { scope: "row" }, name),
      make("td", { class: "text" }, job ? [job.task, job.part, job.variant, page.per_job ? "" : `${page.nouns.job} ${job.number}`].filter(Boolean).join(", ") : "idle"), make("td", { class: "text" }, job ? `until ${short(job.end)} ${page.unit}: ${job.fate}` : "")));
    const queues = now.queues.slice(0, 40).map(({ task, waiting: count }) => make("li", {}, page.per_job ? task : `${task}: ${count}`));
    fill(byId("moment"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Resources" }, make("table", {}, make("tbody", {}, ...busy))),
      ...(idle ? [make("p", { class: "note" }, `${busy.length ? "Others idle" : "All idle"}: ${idle.toLocaleString("en")} of ${now.resources.length.toLocaleString("en")}.`)] : []),
      make("p", { class: "note" }, now.waiting ? `${counted(now.waiting, page.nouns.job)} waiting:` : `No ${page.nouns.job} is waiting.`), make("ul", { class: "legend" }, ...queues));
  }

  function drawDecision(choice) {
    const table = byId("candidates");
    fill(byId("situation"), ...(choice.situation || []).flatMap((one) => [make("dt", { title: one.meaning }, one.name), make("dd", {}, quantity(one.value, one.unit))]));
    if (!choice.candidates.length) {
      byId("decision-lead").textContent = sentence(choice.note);
      byId("decision-rule").textContent = "";
      fill(table.tHead); fill(table.tBodies[0]);
      return;
    }
    const taken = choice.candidates.find((one) => one.chosen), ranked = choice.candidates.some((one) => one.rank !== null);
    const judged = (one) => (ranked ? (one.rank === null ? "" : String(one.rank)) : one.score === null ? "" : short(one.score));
    byId("decision-lead").textContent = `Decision ${choice.number.toLocaleString("en")} at ${short(choice.time)} ${page.unit}${choice.asked ? `, for ${choice.asked}` : ""}: ${choice.policy} chose “${taken.name}” out of ${counted(choice.legal, "allowed candidate")}. ${choice.note}`;
    byId("decision-rule").textContent = `${choice.policy}: ${sentence(choice.rule)} ${choice.judgement}`;
    const differing = choice.columns.map((_, n) => n).filter((n) => new Set(choice.candidates.map((one) => one.values[n])).size > 1);
    const scores = choice.candidates.some((one) => judged(one) !== ""), simulated = choice.candidates.some((one) => one.mean !== null);
    const led = (one) => (one.mean === null ? "" : one.error === 0 && one.lead === 0 ? "0" : `${one.lead > 0 ? "+" : ""}${short(one.lead)} ± ${short(one.error)}`);
    fill(table.tHead, make("tr", {}, make("th", { scope: "col" }, "candidate"), scores ? make("th", { scope: "col" }, ranked ? "rank" : "score") : null,
      ...(simulated ? [make("th", { scope: "col", title: "Mean reward over the simulated futures" }, "mean reward"), make("th", { scope: "col", title: "Lead over what the base would choose, with its standard error, paired over the futures" }, "lead over the base")] : []),
      ...differing.map((n) => make("th", { scope: "col", title: choice.columns[n].meaning }, [...UNITLESS, "share"].includes(choice.columns[n].unit) ? choice.columns[n].name : `${choice.columns[n].name} (${choice.columns[n].unit})`))));
    fill(table.tBodies[0], ...choice.candidates.map((one) => make("tr", { class: one.chosen ? "chosen" : null }, make("th", { scope: "row" }, one.chosen ? `${one.name} (chosen)` : one.name),
      scores ? make("td", {}, judged(one)) : null, ...(simulated ? [make("td", {}, one.mean === null ? "" : short(one.mean)), make("td", {}, led(one))] : []), ...differing.map((n) => make("td", {}, short(one.values[n]))))));
  }

  // A share as a percentage, a count with its noun in the right number, an index or flag without a unit.
  function quantity(number, unit) {
    if (unit === "share") return `${short(100 * number)}%`;
    if (UNITLESS.includes(unit)) return short(number);
    return `${short(number)} ${number === 1 && /[a-z]{3,}s$/.test(unit) ? unit.slice(0, -1) : unit}`;
  }

  const sentence = (text) => (text ? text.charAt(0).toUpperCase() + text.slice(1).replace(/[.]?$/, ".") : "");

  // Play -------------------------------------------------------------------------------------------------------------

  function play() {
    if (playing) return stop();
    byId("play").textContent = "Pause";
    byId("play").setAttribute("aria-pressed", "true");
    let before = performance.now(), last = 0;
    const frame = (now) => {
      if (!playing) return;
      const span = sight.view.to - sight.view.from;
      place(sight.view.cursor + ((now - before) / 1000) * (span / Number(byId("speed").value)));
      before = now;
      if (now - last > REFRESH_MS) { last = now; showMoment({ at: sight.view.cursor }); }
      if (sight.view.cursor >= page.end) stop(); else playing = requestAnimationFrame(frame);
    };
    playing = requestAnimationFrame(frame);
    return undefined;
  }

  function stop() {
    if (playing) cancelAnimationFrame(playing);
    playing = null;
    byId("play").textContent = "Play";
    byId("play").setAttribute("aria-pressed", "false");
  }

  function step(by) {
    stop();
    const number = choice && choice.number !== undefined ? Math.max(choice.number + by, 0) : 0;
    return showMoment({ number });
  }

  const KEYS = {
    ArrowLeft: () => slide(-0.2), ArrowRight: () => slide(0.2), "+": () => sight.zoom(0.5), "=": () => sight.zoom(0.5), "-": () => sight.zoom(2),
    Home: () => sight.show(0, sight.view.to - sight.view.from), End: () => sight.show(page.end, page.end + sight.view.to - sight.view.from),
    ",": () => step(-1), ".": () => step(1), " ": play,
  };
  const slide = (part) => { const span = sight.view.to - sight.view.from; sight.show(sight.view.from + part * span, sight.view.to + part * span); };

  byId("replay-charts").addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  byId("replay-run").addEventListener("change", (event) => { location.hash = address("replay", { run: event.target.value }); });
  byId("play").addEventListener("click", play);
  byId("step").addEventListener("click", () => step(1));
  byId("back").addEventListener("click", () => step(-1));
  byId("cursor").addEventListener("change", (event) => { stop(); setCursor(Number(event.target.value) || 0); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => sight && sight.redraw());

  return { open, close };
})();
