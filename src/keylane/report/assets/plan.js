(() => {
  const MOST_ROWS = 360; // more lanes than this share rows, so that no row is thinner than a pixel
  const MOST_LABELS = 13;
  const { palette, shade, shape, frame, listen, STEPS } = heat;
  const { show } = tips;
  const { maps: sides, windows, power } = JSON.parse(document.getElementById("figures").textContent);
  const tip = document.getElementById("tip");
  const number = new Intl.NumberFormat("en");
  const sum = (values) => values.reduce((a, b) => a + b, 0);

  // One scale for all maps: records in a lane and window, whichever side they are of.
  let most = 1, fullestLane = 1;
  for (const side of Object.values(sides)) {
    side.totals = side.cells.map(sum);
    side.means = windows.map((_, x) => sum(side.cells.map((row) => row[x])) / side.cells.length);
    for (const row of side.cells) for (const cell of row) if (cell > most) most = cell;
    for (const total of side.totals) if (total > fullestLane) fullestLane = total;
  }

  function byLoad() { return document.querySelector("[name=rows]:checked").value == "load"; }

  // Rows of a map: lanes in order or fullest first, as many to a row as it takes.
  function rowsOf(side) {
    const lanes = side.cells.map((_, lane) => lane);
    if (byLoad()) lanes.sort((a, b) => side.totals[b] - side.totals[a] || a - b);
    const each = Math.ceil(lanes.length / MOST_ROWS), rows = [];
    for (let i = 0; i < lanes.length; i += each) rows.push(lanes.slice(i, i + each));
    return rows;
  }

  // Lanes that share a row: the row shows the fullest of them, so a hot lane is never lost between two others.
  function fullest(side, row, column) {
    return row.reduce((best, lane) => side.cells[lane][column] > side.cells[best][column] ? lane : best, row[0]);
  }

  function draw(map, colours) {
    const side = sides[map.dataset.side], rows = rowsOf(side), columns = windows.length;
    const canvas = map.querySelector("canvas");
    canvas.width = columns;
    canvas.height = rows.length;
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows.length);
    rows.forEach((row, y) => {
      for (let x = 0; x < columns; x++) {
        image.data.set([...shade(side.cells[fullest(side, row, x)][x] / most, colours, power), 255], (y * columns + x) * 4);
      }
    });
    context.putImageData(image, 0, 0);
    const says = say(side, rows);
    canvas.setAttribute("aria-label", says + " Arrow keys read single cells.");
    map.querySelector(".said").textContent = says;
    label(map.querySelector(".gutter"), rows);
    totals(map.querySelector(".totals"), side, rows);
    map.rows = rows;
  }

  function say(side, rows) {
    const mean = sum(side.totals) / side.totals.length || 1, idle = side.totals.filter((total) => !total).length;
    const none = idle ? ` ${number.format(idle)} ${idle == 1 ? "lane never gets" : "lanes never get"} a record.` : "";
    const shared = rows[0].length > 1 ? ` Each row is the fullest of ${rows[0].length} lanes.` : "";
    return `${number.format(side.cells.length)} lanes: the fullest holds ${(Math.max(...side.totals) / mean).toFixed(2)}× the mean, all records counted.${none}${shared}`;
  }

  function label(gutter, rows) {
    const at = (text, share) => {
      const made = document.createElement("span");
      made.textContent = text;
      made.style.top = share * 100 + "%";
      return made;
    };
    // By load, the numbers of some of many lanes would tell nothing.
    if (byLoad() && rows.length > MOST_LABELS) return gutter.replaceChildren(at("fullest", 0.015), at("emptiest", 0.985));
    const every = Math.ceil(rows.length / MOST_LABELS);
    gutter.replaceChildren(...rows.flatMap((row, y) => {
      if (y % every) return [];
      return [at(number.format(row[0]), (y + 0.5) / rows.length)];
    }));
  }

  // Bars beside the map: what each lane holds in all, all maps on one scale, and the mean lane as a line.
  function totals(svg, side, rows) {
    const height = 100 / rows.length, many = rows.length > 90;
    const bars = rows.map((row, y) => {
      const width = Math.max(...row.map((lane) => side.totals[lane])) / fullestLane * 100;
      return many ? `H${width.toFixed(2)}V${((y + 1) * height).toFixed(3)}` : `M0 ${(y * height).toFixed(3)}h${width.toFixed(2)}v${(height * 0.86).toFixed(3)}H0Z`;
    }).join("");
    const path = many ? `M0 0${bars}H0Z` : bars; // thin bars would leave hairlines between them
    const mean = sum(side.totals) / side.totals.length / fullestLane * 100;
    svg.setAttribute("viewBox", "0 0 100 100");
    svg.replaceChildren(shape("path", { d: path, class: "sums" }), shape("line", { x1: mean, x2: mean, y1: 0, y2: 100, class: "mean" }));
  }

  function point(map, x, y, at) {
    const side = sides[map.dataset.side], lane = fullest(side, map.rows[y], x), cell = side.cells[lane][x];
    const over = side.means[x] ? (cell / side.means[x]).toFixed(2) : "0";
    show([`lane ${number.format(lane)}, ${windows[x]}`, `${number.format(cell)} records, ${over}× the mean lane of this window`], at);
    frame(map, x, y);
  }

  // Marks of a chart: their title is shown at once, by pointer or by arrow keys, and no longer by the browser.
  function listenToMarks(chart) {
    const marks = [...chart.querySelectorAll(".mark:has(> title)")];
    let at = -1;
    for (const mark of marks) {
      const title = mark.querySelector("title");
      mark.says = title.textContent.split("\n");
      title.remove();
    }
    const leave = () => { tip.hidden = true; for (const mark of marks) mark.classList.remove("on"); };
    const enter = (mark, place) => { leave(); mark.classList.add("on"); show(mark.says, place); };
    chart.addEventListener("pointermove", (event) => {
      const mark = event.target.closest?.(".mark");
      if (mark?.says) enter(mark, { x: event.clientX, y: event.clientY }); else leave();
    });
    chart.addEventListener("pointerleave", leave);
    chart.addEventListener("blur", leave);
    chart.addEventListener("keydown", (event) => {
      if (event.key == "Escape") leave();
      const step = STEPS[event.key];
      if (!step || !marks.length) return;
      event.preventDefault();
      at = (at + step[0] + step[1] + marks.length + (at < 0 && step[0] + step[1] < 0)) % marks.length;
      const box = marks[at].getBoundingClientRect();
      enter(marks[at], { x: box.right - 8, y: box.bottom - 12 });
    });
  }

  // A table that sorts: numbers by value, words by letter; what has no value stays last.
  function listenToHeads(table) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    const value = (row, i) => row.cells[i].dataset.value ?? row.cells[i].textContent;
    heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") == "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => {
        const [left, right] = [value(a, i), value(b, i)];
        if (left === "" || right === "") return (left === "") - (right === "");
        const order = isNaN(left) || isNaN(right) ? left.localeCompare(right) : left - right;
        return down ? -order : order;
      });
      body.append(...rows);
    }));
  }

  // The best candidates, those of one lane count, which the chart brings out, or all; today's and the chosen one always.
  function showCandidates() {
    const shown = document.querySelector("[name=candidates]:checked")?.value ?? "all";
    const other = (one) => shown == "best" ? one.matches("tr:not([data-best])") : shown != "all" && one.dataset.lanes != shown;
    for (const row of document.querySelectorAll("table.candidates tr[data-lanes]")) row.hidden = other(row);
    for (const mark of document.querySelectorAll(".mark[data-lanes]")) mark.classList.toggle("dim", other(mark));
  }

  function listenToCopy(button) {
    const source = document.getElementById(button.dataset.copies);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source); // no clipboard here: the text is marked, and one key copies it
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  const maps = [...document.querySelectorAll(".map")];
  const drawAll = () => { const colours = palette(); for (const map of maps) draw(map, colours); };
  for (const map of maps) listen(map, point);
  for (const radio of document.querySelectorAll("[name=rows]")) radio.addEventListener("change", drawAll);
  for (const chart of document.querySelectorAll(".chart > div")) listenToMarks(chart);
  for (const table of document.querySelectorAll("table.sorts")) listenToHeads(table);
  for (const radio of document.querySelectorAll("[name=candidates]")) radio.addEventListener("change", showCandidates);
  showCandidates();
  for (const button of document.querySelectorAll(".copy")) listenToCopy(button);
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("print").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
  document.documentElement.dataset.ready = "yes";
})();
