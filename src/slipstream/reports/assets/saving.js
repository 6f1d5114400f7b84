"use strict";
// Saves charts of a report as PNG images, and what they show as CSV tables.
function saving(page, theme) {
  const element = (id) => document.getElementById(id);

  function download(name, href) {
    const link = document.createElement("a");
    link.download = name;
    link.href = href;
    link.click();
  }

  async function image(id) {
    const canvas = element(id).querySelector(":scope > canvas");
    if (!canvas) return Plotly.toImage(element(id), { format: "png", scale: 2, width: element(id).clientWidth, height: element(id).clientHeight });
    const copy = document.createElement("canvas"), pen = copy.getContext("2d");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    pen.fillStyle = theme().page;
    pen.fillRect(0, 0, copy.width, copy.height);
    pen.drawImage(canvas, 0, 0);
    return copy.toDataURL("image/png");
  }

  // Names of figures are escaped for Plotly, which reads some HTML.
  const plain = (text) => (typeof text === "string" ? text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&#x27;/g, "'").replace(/&amp;/g, "&") : text);
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(plain(value));
    return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const table = (head, rows) => [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";

  function bars(run) {
    const time = (name) => `${name}_${page.unit}`, { ran, idle, nouns } = run;
    const head = ["resource", nouns.task, ...(run.per_job ? [] : [nouns.job]), ...(ran.part ? ["part"] : []), "variant", time("start"), time("end"), time("arrival"), ...(run.deadlines ? [time("deadline")] : []), "outcome"];
    const row = (list, i, never) => [never ? "" : run.resources[list.resource[i]], run.tasks[list.task[i]], ...(run.per_job ? [] : [list.number[i]]),
      ...(ran.part ? [never ? "" : run.parts[list.part[i]]] : []), never ? "" : run.variants[list.task[i]][list.variant[i]], never ? "" : list.start[i], never ? "" : list.end[i],
      list.release[i], ...(run.deadlines ? [list.deadline[i]] : []), run.fates[list.fate[i]]];
    return table(head, [...ran.start.map((_, i) => row(ran, i, false)), ...idle.left.map((_, i) => row(idle, i, true))]);
  }

  function waiting() {
    return table(["run", `time_${page.unit}`, "waiting"], page.waiting.flatMap(({ label, times, counts }) => times.map((time, n) => [label, time, counts[n]])));
  }

  function figure({ data, layout }) {
    const title = (axis, name) => (axis && axis.title && axis.title.text) || name;
    if (data[0] && data[0].type === "heatmap") {
      return table(["row", title(layout.xaxis, "x"), "value"], data[0].y.flatMap((name, n) => data[0].x.map((x, k) => [name, x, data[0].z[n][k]])));
    }
    return table(["series", title(layout.xaxis, "x"), title(layout.yaxis, "y")], data.flatMap((trace) => trace.x.map((x, n) => [trace.name, x, trace.y[n]])));
  }

  function rows(id) {
    if (id === "waiting") return waiting();
    return id.startsWith("gantt-") ? bars(page.runs[Number(id.slice(6))]) : figure(page.figures[id]);
  }

  document.querySelectorAll("[data-save]").forEach((button) => button.addEventListener("click", async () => {
    const { save, chart } = button.dataset;
    if (save === "png") { download(`${chart}.png`, await image(chart)); return; }
    const address = URL.createObjectURL(new Blob([rows(chart)], { type: "text/csv" }));
    download(`${chart}.csv`, address);
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }));
}
