(() => {
  const MOST_ROWS = 384; // more lanes than this share rows, so that no row is thinner than a pixel
  const { palette, shade, shape, frame, listen } = heat;
  const { cases, power } = JSON.parse(document.getElementById("figures").textContent);
  const tip = document.getElementById("tip");
  const number = new Intl.NumberFormat("en");

  // One scale for all contracts of a stream: the fullest cell of any of them is its end.
  for (const one of cases) {
    one.most = 1;
    for (const trial of one.trials) for (const row of trial.cells) for (const cell of row) if (cell > one.most) one.most = cell;
    const first = one.trials[0].cells;
    one.mean = sum(first.map(sum)) / (first.length * first[0].length) || 1;
  }

  function sum(values) { return values.reduce((a, b) => a + b, 0); }

  // Lanes that share a row: the row shows the fullest of them, so a hot lane is never lost between two others.
  function rowsOf(trial) {
    const each = Math.ceil(trial.cells.length / MOST_ROWS);
    const rows = [];
    for (let lane = 0; lane < trial.cells.length; lane += each) rows.push(lane);
    return { each, rows };
  }

  function fullest(trial, lane, each, column) {
    let best = lane;
    for (let i = lane; i < Math.min(lane + each, trial.cells.length); i++) if (trial.cells[i][column] > trial.cells[best][column]) best = i;
    return best;
  }

  function draw(map, colours) {
    const one = cases[map.dataset.case], trial = one.trials[map.dataset.trial];
    const { each, rows } = rowsOf(trial), columns = trial.cells[0].length;
    const canvas = map.querySelector("canvas");
    canvas.width = columns;
    canvas.height = rows.length;
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows.length);
    rows.forEach((lane, y) => {
      for (let x = 0; x < columns; x++) {
        const cell = trial.cells[fullest(trial, lane, each, x)][x];
        image.data.set([...shade(cell / one.most, colours, power), 255], (y * columns + x) * 4);
      }
    });
    context.putImageData(image, 0, 0);
    canvas.setAttribute("aria-label", say(one, trial, each) + " Arrow keys read single cells.");
    map.querySelector(".said").textContent = say(one, trial, each);
    map.querySelector(".last").textContent = "lane " + (trial.cells.length - 1);
    totals(map.querySelector(".totals"), trial, each, rows);
    map.dataset.drawn = trial.title;
  }

  function say(one, trial, each) {
    const idle = trial.idle ? ` ${trial.idle} lanes never get a record.` : "";
    const shared = each > 1 ? ` Each row is the fullest of ${each} lanes.` : "";
    const learned = trial.learned ? " Learned from the left half; the right half was new to it." : "";
    return `${number.format(trial.cells.length)} lanes: the fullest holds ${trial.maxOverMean} the mean over ${one.over}.${idle}${learned}${shared}`;
  }

  // Bars beside the map: what each lane holds over the day, all contracts on one scale, and the mean as a line.
  function totals(svg, trial, each, rows) {
    const one = cases[svg.closest(".map").dataset.case];
    const most = Math.max(...one.trials.map((t) => Math.max(...t.cells.map(sum))));
    const lanes = trial.cells.map(sum);
    const height = 100 / rows.length;
    const path = rows.map((lane, y) => {
      const width = Math.max(...lanes.slice(lane, lane + each)) / most * 100;
      return `M0 ${(y * height).toFixed(3)}h${width.toFixed(2)}v${(height * 0.86).toFixed(3)}H0Z`;
    }).join("");
    const mean = sum(lanes) / lanes.length / most * 100;
    svg.setAttribute("viewBox", "0 0 100 100");
    svg.replaceChildren(shape("path", { d: path, class: "sums" }), shape("line", { x1: mean, x2: mean, y1: 0, y2: 100, class: "mean" }));
  }

  function clock(one, column) {
    const two = (value) => String(value).padStart(2, "0");
    const text = (minutes) => two(Math.floor(minutes / 60)) + ":" + two(minutes % 60);
    return text(one.begin + column * one.step) + "–" + text(one.begin + (column + 1) * one.step);
  }

  function point(map, x, y, at) {
    const one = cases[map.dataset.case], trial = one.trials[map.dataset.trial];
    const { each, rows } = rowsOf(trial);
    const lane = fullest(trial, rows[y], each, x), cell = trial.cells[lane][x];
    const head = document.createElement("b");
    head.textContent = `lane ${lane}, ${clock(one, x)}`;
    tip.replaceChildren(head, `${number.format(cell)} ${trial.what}, ${(cell / one.mean).toFixed(1)}×`);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(innerWidth - box.width - 8, at.x + 14)) + "px";
    tip.style.top = (at.y + 18 + box.height > innerHeight ? at.y - box.height - 12 : at.y + 18) + "px";
    frame(map, x, y);
  }

  const maps = [...document.querySelectorAll(".map")];
  const drawAll = () => { const colours = palette(); for (const map of maps) draw(map, colours); };
  for (const map of maps) {
    listen(map, point);
    map.addEventListener("change", (event) => {
      map.dataset.trial = event.target.value;
      draw(map, palette());
    });
  }
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("print").addEventListener("change", drawAll);
  document.documentElement.dataset.ready = "yes";
})();
