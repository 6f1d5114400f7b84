"use strict";
// Charts over the time of a run, drawn on canvas: fast enough to redraw while they are dragged.
// A chart is an object with `draw(view, look, printing)` and `find(x, y)`, which describes what lies under the pointer. The
// report passes a whole run; the dashboard loads windows of it, with jobs or, when zoomed out, with shares of time.
const charts = (() => {
  const [OPEN, ON_TIME] = [0, 1];
  const KINDS = ["missed", "on-time", "open"]; // from the bottom up, where they are drawn as shares
  const AXIS = 40, RIGHT = 16;
  const ROOMY = { row: 48, bar: 28, above: 16 }, TIGHT = { row: 18, bar: 14, above: 2 };
  const MOST_ROOMY = 24; // rows above which they are drawn tight
  const PALETTE = ["#4399d8", "#d98200", "#00785a", "#d58bb4", "#2a4fa0", "#c9b72e", "#8f3d7c", "#8d8d8d"]; // as in render/style.py
  const LIGHT_TEXT = new Set(["#00785a", "#2a4fa0", "#8f3d7c"]); // colours on which light text is easier to read
  const LINES_ON_DARK = { "#00785a": "#4eda7d", "#2a4fa0": "#7b5af6", "#8f3d7c": "#ac5391" }; // of these three a line is too dim there
  const FEWEST_PIXELS = 4; // mean pixels per job below which jobs are drawn as shares
  const COLUMN = 5; // pixels over which shares and means are taken
  const ON_BAR = "#10141c", ON_DARK_BAR = "#ffffff", OUTLINE = 2;
  const NEVER = "never ran";

  const kindOf = (fate) => (fate === ON_TIME ? "on-time" : fate === OPEN ? "open" : "missed");

  // Returns the first index from 0 to `count` for which `test` holds; it must hold for all later ones too.
  function first(count, test) {
    let low = 0, high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (test(middle)) high = middle; else low = middle + 1;
    }
    return low;
  }

  function ticks(from, to, most) {
    const rough = (to - from) / Math.max(most, 1), size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * size).find((candidate) => candidate >= rough);
    const found = [];
    for (let n = Math.ceil(from / step); n * step <= to * (1 + 1e-12); n++) found.push(Number((n * step).toPrecision(12)));
    return found;
  }

  const written = (number) => number.toLocaleString("en", { maximumFractionDigits: 6 });

  // Diagonal lines on bars of jobs that missed their deadline: seen without telling red from other colours.
  function hatching(pen, colour) {
    const tile = document.createElement("canvas"), size = 8;
    tile.width = tile.height = size;
    const own = tile.getContext("2d");
    own.strokeStyle = colour;
    own.lineWidth = 2;
    own.beginPath();
    for (const x of [-size, 0, size]) { own.moveTo(x, size); own.lineTo(x + size, 0); }
    own.stroke();
    return pen.createPattern(tile, "repeat");
  }

  // Marks and title of a plotly.js axis over the page's time, in the unit that suits its end.
  function timeAxis(axis, unit, from, to, most) {
    const [name, size] = axisUnit(unit, to), marks = ticks(from / size, to / size, most);
    return { tickmode: "array", tickvals: marks.map((tick) => tick * size), ticktext: marks.map(written), title: { ...axis.title, text: axis.title.text.replace(`(${unit})`, `(${name})`) } };
  }

  // The unit in which `windowText` would say a time, and how many of the page's units it has.
  function axisUnit(unit, time) {
    const seconds = { us: 1e-6, ms: 1e-3, s: 1 }[unit] || 1, [name, size] = TIME_UNITS.find(([, , below]) => time * seconds < below);
    return [name, size / seconds];
  }

  const rowsOf = (run) => (run.never ? [...run.resources, NEVER] : run.resources);

  // What all charts share: a canvas, a column for labels that is as wide everywhere, a time axis.
  function surface(holder, page) {
    const canvas = holder.appendChild(document.createElement("canvas"));
    const pen = canvas.getContext("2d");
    const labels = page.runs.flatMap(rowsOf);
    let cursor = null;
    return {
      canvas, pen,
      // Prepares the canvas at a height; returns where the plot lies and how to turn times into pixels.
      begin(view, look, printing, height) {
        cursor = view.cursor;
        const width = printing ? 660 : Math.max(holder.clientWidth, 200);
        const scale = printing ? 3 : Math.max(window.devicePixelRatio || 1, 1);
        const [across, down] = [Math.round(width * scale), Math.round(height * scale)];
        if (canvas.width !== across || canvas.height !== down) { // a new size costs a new canvas, even if it is the old one
          canvas.width = across;
          canvas.height = down;
          canvas.style.width = width + "px";
          canvas.style.height = height + "px";
        }
        pen.setTransform(scale, 0, 0, scale, 0, 0);
        pen.clearRect(0, 0, width, height);
        pen.font = (width < 520 ? 11 : 13) + "px system-ui, sans-serif";
        pen.lineWidth = 1;
        const left = Math.ceil(Math.min(Math.max(...labels.map((text) => pen.measureText(text).width)) + 16, 150)), right = width - RIGHT, per = (right - left) / (view.to - view.from);
        const plot = { left, right, bottom: height - AXIS, x: (time) => left + (time - view.from) * per, time: (x) => view.from + (x - left) / per };
        const [unit, size] = axisUnit(page.unit, view.to);
        Object.assign(holder.dataset, { from: view.from, to: view.to, left, right, unit });
        pen.textBaseline = "alphabetic";
        pen.textAlign = "center";
        for (const tick of ticks(view.from / size, view.to / size, (right - left) / 90)) {
          const x = Math.round(plot.x(tick * size)) + 0.5;
          pen.strokeStyle = look.line;
          pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, plot.bottom + 4); pen.stroke();
          pen.fillStyle = look.muted;
          const half = pen.measureText(written(tick)).width / 2;
          pen.fillText(written(tick), Math.min(x, width - half), plot.bottom + 18);
        }
        pen.fillText(`time (${unit})`, (left + right) / 2, plot.bottom + 35);
        return plot;
      },
      inside(plot, look, work) {
        pen.save();
        pen.beginPath(); pen.rect(plot.left, 0, plot.right - plot.left, plot.bottom); pen.clip();
        work();
        if (cursor !== undefined) {
          pen.fillStyle = look.full;
          pen.fillRect(Math.round(plot.x(cursor)) - 1, 0, 2, plot.bottom);
        }
        pen.restore();
      },
    };
  }

  function shortened(pen, text, width) {
    if (pen.measureText(text).width <= width) return text;
    while (text.length > 1 && pen.measureText(text + "…").width > width) text = text.slice(0, -1);
    return text + "…";
  }

  // Schedule      ------------------------------------------------------------------------------------------------

  function gantt(holder, run, page) {
    const rows = rowsOf(run);
    const { row: ROW, bar: BAR, above: ABOVE } = rows.length > MOST_ROOMY ? TIGHT : ROOMY;
    let jobs, idle, lanes, lost, parts, coarse;
    let plot = null, detailed = true, sight = [], marked = null;

    function load(piece) {
      coarse = piece.shares ? { ...piece, shares: Uint8Array.from(atob(piece.shares), (byte) => byte.charCodeAt(0)) } : null;
      jobs = coarse ? { start: [], task: [] } : piece.ran;
      idle = coarse ? { left: [] } : piece.idle;
      lanes = run.resources.map(() => []); // slices of each resource; they follow one another
      jobs.start.forEach((_, i) => lanes[jobs.resource[i]].push(i));
      lost = idle.left.map((_, i) => i).sort((a, b) => idle.left[a] - idle.left[b]);
      parts = new Map(); // slices of each job, in order of time
      jobs.task.forEach((task, i) => {
        const key = `${task}/${jobs.number[i]}`;
        if (parts.has(key)) parts.get(key).push(i); else parts.set(key, [i]);
      });
      marked = null;
    }
    const partsOf = (i) => parts.get(`${jobs.task[i]}/${jobs.number[i]}`);
    const paper = surface(holder, page), marks = page.marks || [];
    const pen = paper.pen, groups = run.groups || run.tasks, nouns = run.nouns || { job: "job", bar: "job" };
    const graphs = run.per_job && run.parts && run.parts.length > 0; // parts of a graph follow one another
    let hatch = null, hatchColour = null;
    const colourOf = (i) => PALETTE[(jobs.group || jobs.task)[i] % PALETTE.length];
    const deadlineOf = (list, i) => (list.deadline ? list.deadline[i] : null);
    const middle = (row) => row * ROW + ABOVE + BAR / 2;
    load(run);

    function draw(view, look, printing) {
      plot = paper.begin(view, look, printing, rows.length * ROW + AXIS + 6);
      sight = lanes.map((lane) => [first(lane.length, (n) => jobs.end[lane[n]] > view.from), first(lane.length, (n) => jobs.start[lane[n]] >= view.to)]);
      const most = (plot.right - plot.left) / FEWEST_PIXELS;
      detailed = !coarse && sight.every(([begin, end]) => end - begin <= most);
      Object.assign(holder.dataset, { mode: detailed ? "jobs" : "shares", lanes: rows.map((_, row) => middle(row)).join(), bar: BAR, column: COLUMN });
      pen.textAlign = "right"; pen.textBaseline = "middle"; pen.fillStyle = look.text;
      rows.forEach((name, row) => pen.fillText(shortened(pen, name, plot.left - 12), plot.left - 8, middle(row)));
      paper.inside(plot, look, () => {
        lanes.forEach((lane, row) => (detailed ? drawJobs : drawShares)(lane, row, look));
        if (rows.length > lanes.length) drawLost(view, look);
        if (marked !== null && detailed) outline(partsOf(marked), look);
        marks.forEach((mark) => drawMark(mark, look));
      });
    }

    function drawJobs(lane, row, look) {
      const top = middle(row) - BAR / 2, [begin, end] = sight[row];
      pen.textAlign = "center"; pen.textBaseline = "middle";
      for (let n = begin; n < end; n++) {
        const i = lane[n], x = plot.x(jobs.start[i]), width = plot.x(jobs.end[i]) - x;
        const own = colourOf(i), drawn = width > 3 ? width - 1 : width; // a gap tells neighbours apart
        pen.fillStyle = own;
        pen.globalAlpha = jobs.fate[i] === OPEN ? 0.6 : 1;
        pen.fillRect(x, top, drawn, BAR);
        pen.globalAlpha = 1;
        const missed = run.deadlines !== false && kindOf(jobs.fate[i]) === "missed";
        if (missed) drawMissed(x, top, drawn, look);
        // Parts that begin together are one job on several resources.
        const paused = !graphs && jobs.start[partsOf(i).at(-1)] >= jobs.end[i] && width > 9;
        if (paused) drawPause(x + width - 8, top, look);
        const seen = Math.max(x, plot.left), name = nameOf(i);
        const free = Math.min(x + width - (paused ? 8 : 0), plot.right) - seen - 6, wide = free > 14 ? pen.measureText(name).width : Infinity;
        if (wide <= free) {
          if (missed) { pen.fillStyle = own; pen.fillRect(seen + 1 + (free - wide) / 2, top + 6, wide + 4, BAR - 12); } // no hatching behind text
          pen.fillStyle = LIGHT_TEXT.has(own) ? ON_DARK_BAR : ON_BAR;
          pen.fillText(name, seen + 3 + free / 2, top + BAR / 2);
        }
      }
      for (let n = begin; jobs.deadline && n < end; n++) {
        const i = lane[n], due = jobs.deadline[i];
        if (due === null) continue;
        const x = plot.x(due);
        pen.fillStyle = kindOf(jobs.fate[i]) === "missed" ? look.missed : look.muted;
        pen.beginPath(); pen.moveTo(x - 5, top - 11); pen.lineTo(x + 5, top - 11); pen.lineTo(x, top - 2); pen.fill();
      }
    }

    // The text on a bar: the part of a graph where all bars belong to one job, else the job or its task.
    const nameOf = (i) => (graphs && groups !== run.tasks && run.tasks.length === 1 ? run.parts[jobs.part[i]] : run.tasks[jobs.task[i]]);

    function drawMissed(x, top, width, look) {
      if (hatchColour !== look.missed) [hatch, hatchColour] = [hatching(pen, look.missed), look.missed];
      pen.fillStyle = hatch;
      pen.fillRect(x, top, width, BAR);
      pen.fillStyle = look.missed;
      if (width <= 2 * OUTLINE) { pen.fillRect(x, top, width, BAR); return; }
      pen.fillRect(x, top, width, OUTLINE); pen.fillRect(x, top + BAR - OUTLINE, width, OUTLINE);
      pen.fillRect(x, top, OUTLINE, BAR); pen.fillRect(x + width - OUTLINE, top, OUTLINE, BAR);
    }

    // Two upright strokes at the end of a slice: the job was interrupted and goes on elsewhere or later.
    function drawPause(x, top, look) {
      pen.fillStyle = look.page;
      pen.fillRect(x, top + 4, 2, BAR - 8);
      pen.fillRect(x + 4, top + 4, 2, BAR - 8);
    }

    // In each column of some pixels the height of a colour is the share of time that such jobs had the resource.
    function drawShares(lane, row, look) {
      const bottom = middle(row) + BAR / 2, shares = sharesOf(lane, row);
      KINDS.forEach((kind, level) => {
        pen.fillStyle = look[kind];
        for (let c = 0; 3 * c < shares.length; c++) {
          const share = shares[3 * c + level];
          if (!share) continue;
          let below = 0;
          for (let k = 0; k < level; k++) below += shares[3 * c + k];
          pen.fillRect(plot.left + COLUMN * c, bottom - BAR * (below + share), COLUMN, BAR * share);
        }
      });
    }

    function sharesOf(lane, row) {
      if (coarse) return sharesFrom(coarse, row);
      const width = plot.right - plot.left, columns = Math.ceil(width / COLUMN);
      const shares = new Float64Array(3 * columns), [begin, end] = sight[row];
      for (let n = begin; n < end; n++) {
        const i = lane[n], level = KINDS.indexOf(kindOf(jobs.fate[i]));
        const from = Math.max(plot.x(jobs.start[i]) - plot.left, 0) / COLUMN, to = Math.min(plot.x(jobs.end[i]) - plot.left, width) / COLUMN;
        for (let c = Math.floor(from); c < to; c++) shares[3 * c + level] += Math.min(to, c + 1) - Math.max(from, c);
      }
      const last = width / COLUMN - (columns - 1); // how much of the last column is in sight
      for (let level = 0; level < 3; level++) shares[3 * (columns - 1) + level] /= last;
      return shares;
    }

    // The same from columns that are there already, wider or narrower than those of the screen.
    function sharesFrom({ shares: known, columns, from, to }, row) {
      const count = Math.ceil((plot.right - plot.left) / COLUMN), per = columns / (to - from), shares = new Float64Array(3 * count);
      for (let c = 0; c < count; c++) {
        const begin = (plot.time(plot.left + COLUMN * c) - from) * per, end = (plot.time(Math.min(plot.left + COLUMN * (c + 1), plot.right)) - from) * per;
        for (let k = Math.max(Math.floor(begin), 0); k < Math.min(end, columns); k++) {
          const part = (Math.min(end, k + 1) - Math.max(begin, k)) / (end - begin) / 255, place = 3 * (row * columns + k);
          for (let level = 0; level < 3; level++) shares[3 * c + level] += part * known[place + level];
        }
      }
      return shares;
    }

    // Crosses, or from far away bars: the highest is the column in which most jobs were lost.
    function drawLost(view, look) {
      const y = middle(lanes.length), inSight = lostIn(view.from, view.to);
      if (detailed) {
        pen.lineWidth = 2;
        for (const i of inSight) {
          const x = plot.x(idle.left[i]);
          pen.strokeStyle = look[kindOf(idle.fate[i])];
          pen.beginPath(); pen.moveTo(x - 4, y - 4); pen.lineTo(x + 4, y + 4); pen.moveTo(x - 4, y + 4); pen.lineTo(x + 4, y - 4); pen.stroke();
        }
        pen.lineWidth = 1;
        return;
      }
      const counts = new Float64Array(Math.ceil((plot.right - plot.left) / COLUMN) + 1);
      const count = (time, jobsLost) => { const c = Math.floor((plot.x(time) - plot.left) / COLUMN); if (c >= 0 && c < counts.length) counts[c] += jobsLost; };
      if (coarse) coarse.lost.forEach((jobsLost, k) => count(coarse.from + ((k + 0.5) * (coarse.to - coarse.from)) / coarse.columns, jobsLost));
      for (const i of inSight) count(idle.left[i], 1);
      const most = Math.max(...counts, 1);
      pen.fillStyle = look.missed;
      counts.forEach((sum, c) => sum && pen.fillRect(plot.left + COLUMN * c, y + BAR / 2 - (BAR * sum) / most, COLUMN - 1, (BAR * sum) / most));
    }

    function lostIn(from, to) {
      const left = idle.left;
      return lost.slice(first(lost.length, (n) => left[lost[n]] >= from), first(lost.length, (n) => left[lost[n]] > to));
    }

    function outline(slices, look) {
      pen.strokeStyle = look.text;
      pen.lineWidth = 2;
      for (const i of slices) {
        const x = plot.x(jobs.start[i]), top = middle(jobs.resource[i]) - BAR / 2;
        pen.strokeRect(x, top, plot.x(jobs.end[i]) - x - 1, BAR);
      }
      pen.lineWidth = 1;
    }

    // A line through all rows with its label on top: a moment that the page says something about.
    function drawMark(mark, look) {
      const x = Math.round(plot.x(mark.time)) + 0.5;
      pen.strokeStyle = pen.fillStyle = look.missed;
      pen.setLineDash([4, 3]);
      pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, plot.bottom); pen.stroke();
      pen.setLineDash([]);
      pen.textAlign = "left"; pen.textBaseline = "top";
      pen.fillText(mark.label, x + 3, 1);
    }

    // What the pointer is at: { lines, job }, or null.
    function find(x, y) {
      const row = Math.floor(y / ROW), time = plot.time(x);
      if (x < plot.left || x > plot.right) return null;
      const atMarks = marks.filter((mark) => Math.abs(plot.x(mark.time) - x) <= 4);
      if (atMarks.length) return { lines: atMarks.map((mark) => `${mark.label}: ${mark.text}`) };
      if (row < lanes.length) return detailed ? findJob(lanes[row], row, x, y, time) : findShares(row, x);
      const near = lostIn(plot.time(x - 5), plot.time(x + 5));
      if (row > lanes.length || !near.length) return null;
      return { lines: near.length > 3 ? [`${near.length} ${nouns.job}s never ran around here`] : near.flatMap((i) => describe(idle, i)) };
    }

    function findJob(lane, row, x, y, time) {
      const [begin, end] = sight[row];
      if (y < middle(row) - BAR / 2) {
        for (let n = begin; jobs.deadline && n < end; n++) if (jobs.deadline[lane[n]] !== null && Math.abs(plot.x(jobs.deadline[lane[n]]) - x) <= 5) return { lines: ["deadline of", ...describe(jobs, lane[n])], job: lane[n] };
        return null;
      }
      const n = first(lane.length, (place) => jobs.end[lane[place]] > time), i = lane[n];
      return n < lane.length && jobs.start[i] <= time ? { lines: describe(jobs, i), job: i } : null;
    }

    function findShares(row, x) {
      const c = Math.floor((x - plot.left) / COLUMN), shares = sharesOf(lanes[row], row).slice(3 * c, 3 * c + 3);
      const percent = (share) => `${Math.round(100 * share)}%`;
      const used = run.deadlines === false ? [`${percent(shares[1] + shares[2])} in use`] : [`${percent(shares[1])} on ${nouns.job}s that were on time`, `${percent(shares[0])} on ${nouns.job}s that missed their deadline`];
      return { lines: [`around ${written(Number(plot.time(x).toPrecision(5)))} ${page.unit}, of the time:`, ...used,
        `${percent(Math.max(1 - shares[0] - shares[1] - shares[2], 0))} idle`, "zoom in to see single bars"] };
    }

    const jobName = (list, i) => (run.per_job ? run.tasks[list.task[i]] : `${run.tasks[list.task[i]]}, ${nouns.job} ${list.number[i]}`);

    function describe(list, i) {
      const lines = [jobName(list, i)];
      if (list === jobs) {
        const slices = partsOf(i);
        const part = slices.length > 1 && !graphs ? ` (part ${slices.indexOf(i) + 1} of ${slices.length})` : "";
        if (list.part) lines.push(run.parts[list.part[i]]);
        const variant = run.variants[list.task[i]][list.variant[i]];
        lines.push(...(variant ? [variant] : []), `ran ${written(list.start[i])} to ${written(list.end[i])} ${page.unit}${part}`);
      }
      const due = deadlineOf(list, i);
      return [...lines, `arrived ${written(list.release[i])}${due === null ? "" : `, deadline ${written(due)}`} ${page.unit}`, (run.fates || page.fates)[list.fate[i]]];
    }

    return { canvas: paper.canvas, load, draw, find, mark: (job) => { const changed = marked !== job; marked = job; return changed; }, describe: (never, i) => describe(never ? idle : jobs, i), shares: () => !detailed };
  }

  // Queue lengths       ----------------------------------------------------------------------------------------

  function waiting(holder, all, page, colours) {
    const HEIGHT = 190, TOP = all.length > 1 ? 30 : 10;
    let lines = all;
    const most = page.most || Math.max(1, ...lines.map((line) => line.counts.reduce((a, b) => Math.max(a, b), 0)));
    const paper = surface(holder, page);
    const pen = paper.pen;
    let plot = null;

    function draw(view, look, printing) {
      plot = paper.begin(view, look, printing, HEIGHT);
      const y = (count) => plot.bottom - (count / most) * (plot.bottom - TOP);
      pen.textAlign = "right"; pen.textBaseline = "middle";
      for (const tick of ticks(0, most, 4).filter(Number.isInteger)) {
        pen.strokeStyle = look.line; pen.fillStyle = look.muted;
        pen.beginPath(); pen.moveTo(plot.left, y(tick)); pen.lineTo(plot.right, y(tick)); pen.stroke();
        pen.fillText(written(tick), plot.left - 8, y(tick));
      }
      paper.inside(plot, look, () => lines.forEach((line, index) => drawLine(line, colours[index % colours.length], view, y)));
      if (lines.length > 1) drawKey(look);
    }

    // A step line; from far away the mean of each column of pixels, with the lowest and highest value behind it.
    function drawLine({ times, counts }, colour, view, y) {
      const begin = Math.max(first(times.length, (n) => times[n] > view.from) - 1, 0), end = first(times.length, (n) => times[n] > view.to);
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = 2;
      pen.beginPath();
      if (end - begin > (plot.right - plot.left) / FEWEST_PIXELS) traceMeans(times, counts, begin, end, y);
      else {
        pen.moveTo(plot.x(times[begin]), y(counts[begin]));
        for (let n = begin + 1; n < end; n++) {
          pen.lineTo(plot.x(times[n]), y(counts[n - 1]));
          pen.lineTo(plot.x(times[n]), y(counts[n]));
        }
        pen.lineTo(plot.right, y(counts[end - 1]));
      }
      pen.stroke();
      pen.lineWidth = 1;
    }

    function traceMeans(times, counts, begin, end, y) {
      let n = begin + 1, now = counts[begin];
      for (let x = plot.left; x < plot.right; x += COLUMN) {
        let low = now, high = now, sum = 0, from = x;
        for (; n < end && plot.x(times[n]) < x + COLUMN; n++) {
          const change = Math.max(plot.x(times[n]), x);
          sum += now * (change - from);
          from = change;
          now = counts[n];
          low = Math.min(low, now); high = Math.max(high, now);
        }
        sum += now * (x + COLUMN - from);
        pen.globalAlpha = 0.25;
        pen.fillRect(x, y(high), COLUMN, y(low) - y(high));
        pen.globalAlpha = 1;
        pen.lineTo(x + COLUMN / 2, y(sum / COLUMN));
      }
    }

    function drawKey(look) {
      let x = plot.left;
      pen.textAlign = "left";
      lines.forEach((line, index) => {
        pen.fillStyle = colours[index % colours.length]; pen.fillRect(x, 9, 18, 3);
        pen.fillStyle = look.text; pen.fillText(line.label, x + 24, 11);
        x += 24 + pen.measureText(line.label).width + 18;
      });
    }

    function find(x) {
      if (x < plot.left || x > plot.right) return null;
      const time = plot.time(x), at = ({ times, counts }) => counts[Math.max(first(times.length, (n) => times[n] > time) - 1, 0)];
      return { lines: [`at ${written(Number(time.toPrecision(7)))} ${page.unit}`, ...lines.map((line) => (lines.length > 1 ? `${line.label}: ` : "") + `${at(line)} waiting`)] };
    }

    return { canvas: paper.canvas, load: (pieces) => { lines = pieces; }, draw, find, mark: () => false, shares: () => false };
  }

  // The colour of a line or a point: of the palette, or a brighter one on a dark page.
  function lineColour(index) {
    const own = PALETTE[index % PALETTE.length];
    return (matchMedia("(prefers-color-scheme: dark)").matches && LINES_ON_DARK[own]) || own;
  }

  return { gantt, waiting, axisUnit, timeAxis, lineColour, PALETTE, OPEN, ON_TIME };
})();
