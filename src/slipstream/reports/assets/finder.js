"use strict";
// Finds bars in the Gantt charts of a report: the next miss, or the next job that matches a text.
function finder(page, gantts, sight) {
  const element = (id) => document.getElementById(id);
  const MISSED_FROM = 2; // outcomes from this code on are misses
  const BARS_AROUND = 20; // widths of a found bar that are in sight with it
  let question = null, hits = [], last = -1;

  // All places of the page at which a test holds, in order of time: bars, and jobs that never ran.
  function places(test) {
    const found = [];
    page.runs.forEach((run, chart) => {
      for (const [never, list, times] of [[false, run.ran, run.ran.start], [true, run.idle, run.idle.left]]) {
        times.forEach((time, index) => { if (test(run, list, index)) found.push({ chart, never, index, time, end: never ? time : list.end[index] }); });
      }
    });
    return found.sort((a, b) => a.time - b.time || a.chart - b.chart);
  }

  const words = (text) => text.toLowerCase().split(/[\s,]+/).filter(Boolean);

  function matching(text) {
    const wanted = words(text);
    return (run, list, i) => {
      const name = `${run.tasks[list.task[i]]} ${run.per_job ? "" : `${run.nouns.job} ${list.number[i]}`} ${list.part ? run.parts[list.part[i]] : ""}`.toLowerCase();
      const own = words(name);
      // A number stands for itself: 1 does not find 17.
      return wanted.every((word) => own.includes(word) || (!/^\d+$/.test(word) && name.includes(word)));
    };
  }

  function next(asked, test, none) {
    if (asked !== question) {
      [question, hits] = [asked, places(test)];
      last = hits.findIndex((hit) => hit.end >= sight.view.from) - 1;
      if (last < -1) last = -1;
    }
    if (!hits.length) { element("found").textContent = none; return; }
    last = (last + 1) % hits.length;
    show(hits[last]);
  }

  function show(hit) {
    const length = hit.end - hit.time;
    // No wider than it was, but wide enough for the whole bar.
    const span = Math.max(2 * length, Math.min(sight.view.to - sight.view.from, Math.max(BARS_AROUND * length, page.first)));
    const middle = (hit.time + hit.end) / 2;
    gantts.forEach((chart) => chart.mark(null));
    if (!hit.never) gantts[hit.chart].mark(hit.index);
    sight.show(middle - span / 2, middle + span / 2);
    const lines = gantts[hit.chart].describe(hit.never, hit.index);
    const run = page.runs.length > 1 ? `${page.runs[hit.chart].label}: ` : "";
    element("found").textContent = `${last + 1} of ${hits.length.toLocaleString("en")}. ${run}${lines[0]}, ${lines.at(-1)}`;
  }

  function search() {
    const text = element("search").value.trim();
    if (text) next(`text ${text}`, matching(text), `Nothing found for “${text}”.`);
  }

  element("find").addEventListener("click", search);
  element("search").addEventListener("keydown", (event) => { if (event.key === "Enter") search(); });
  const miss = element("next-miss");
  if (miss) miss.addEventListener("click", () => next("miss", (_, list, i) => list.fate[i] >= MISSED_FROM, "No deadline was missed."));
}
