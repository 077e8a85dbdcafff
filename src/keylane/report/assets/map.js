// The map of a page: land, cells, borders between lanes. Mercator's projection, drawn on a canvas, no library.
(() => {
  const stage = document.querySelector(".stage");
  if (!stage) return;
  const { map } = JSON.parse(document.getElementById("figures").textContent);
  const { show } = tips, number = new Intl.NumberFormat("en");
  const canvas = stage.querySelector("canvas"), context = canvas.getContext("2d"), tip = document.getElementById("tip");
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const CODES = Object.fromEntries([...LETTERS].map((letter, i) => [letter, i]));
  const FURTHEST = 85, KM_PER_DEGREE = 111.195, CLASSES = 6, TURN = 360;

  // Whole numbers, 5 bits a character, the sign in the lowest bit: see report/steps.py.
  function numbers(text) {
    const made = [];
    for (let i = 0, value = 0, size = 1; i < text.length; i++) {
      const code = CODES[text[i]];
      value += (code & 31) * size;
      size *= 32;
      if (code > 31) continue;
      made.push(value % 2 ? -(value + 1) / 2 : value / 2);
      value = 0;
      size = 1;
    }
    return made;
  }

  const north = (lat) => {
    const held = Math.max(-FURTHEST, Math.min(FURTHEST, lat)) * Math.PI / 180;
    return -Math.log(Math.tan(Math.PI / 4 + held / 2)) * 180 / Math.PI;
  };
  const latitude = (y) => (2 * Math.atan(Math.exp(-y * Math.PI / 180)) - Math.PI / 2) * 180 / Math.PI;

  // Outlines on the flat map, in degrees of longitude, with the box of each.
  function outlines(text, unit) {
    const found = numbers(text), made = [];
    for (let i = 0; i < found.length;) {
      const points = new Float64Array(found[i] * 2), scale = unit(made.length);
      let x = 0, y = 0, box = [Infinity, Infinity, -Infinity, -Infinity];
      for (let p = 0, at = i + 1; p < points.length; p += 2, at += 2) {
        x += found[at];
        y += found[at + 1];
        const px = x * scale, py = north(y * scale);
        points[p] = px;
        points[p + 1] = py;
        box = [Math.min(box[0], px), Math.min(box[1], py), Math.max(box[2], px), Math.max(box[3], py)];
      }
      i += 1 + points.length;
      made.push({ points, box });
    }
    return made;
  }

  const names = map.cells.names ? map.cells.names.split(" ") : [];
  const resolutions = names.map((name) => parseInt(name[1], 16));
  const cells = outlines(map.cells.rings, (i) => map.cells.units[resolutions[i]]);
  for (const name of ["lane", "records", "top", "on", "leaves", "hour", "requests", "copies"]) {
    numbers(map.cells[name]).forEach((value, i) => { cells[i][name] = value; });
  }
  const covered = numbers(map.parts.cells), parts = outlines(map.parts.rings, (i) => map.cells.units[resolutions[covered[i]]]);
  covered.forEach((cell, i) => { cells[cell].parts = parts[i].points; });
  const laneRecords = new Array(map.lanes).fill(0);
  cells.forEach((cell, i) => {
    Object.assign(cell, { resolution: resolutions[i], name: names[i].padEnd(15, "f"), borders: [] });
    cell.density = cell.records / map.cells.area[i];
    if (!cell.leaves) laneRecords[cell.lane] += cell.records;
  });
  const finest = Math.max(0, ...resolutions), coarsest = Math.min(finest, ...resolutions);
  const borders = [];
  for (let found = numbers(map.borders), i = 0; i < found.length; i += 5) {
    const [cell, other, first, corners, copies] = found.slice(i, i + 5);
    const points = Array.from({ length: corners }, (_, n) => {
      const outline = cells[cell].points, size = outline.length / 2, at = (first + n) % size;
      // Over the end of an outline that was unrolled the corner may be a turn away.
      const turn = n ? Math.round((outline[first * 2] - outline[at * 2]) / TURN) * TURN : 0;
      return [outline[at * 2] + turn, outline[at * 2 + 1]];
    });
    const border = { cells: [cells[cell], cells[other]], points, copies: copies / 100 };
    border.class = Math.min(CLASSES - 1, Math.floor(Math.pow(border.copies / (map.copies || 1), 0.4) * CLASSES));
    borders.push(border);
    for (const one of border.cells) one.borders.push(border);
  }
  for (const layer of map.land) layer.outlines = outlines(layer.rings, () => layer.unit);

  // Load is density, so that a cell has the colour of its parts; the scale is logarithmic.
  const densities = cells.filter((cell) => cell.records && !cell.leaves).map((cell) => cell.density).sort((a, b) => a - b);
  const densest = densities.at(-1) ?? 1, thinnest = Math.max(densities[Math.floor(densities.length * 0.02)] ?? 1, densest / 1e6) * 0.8;
  const loadShare = (density) => Math.max(0.001, Math.min(1, Math.log(density / thinnest) / Math.log(densest / thinnest)));

  const view = { x: 0, y: 0, k: 3 };
  let width = 1, height = 1, only = null, pointed = null, queued = false, colours = {};
  const colouring = () => document.querySelector("[name=colour]:checked").value;
  const withBorders = () => document.querySelector("[name=borders]").checked;
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function readColours() {
    colours = { heat: heat.palette() };
    for (const name of ["sea", "land", "coast", "edge", "line", "ink", "before"]) colours[name] = variable("--" + name);
    const base = parseFloat(variable("--lane-light"));
    colours.cover = parseFloat(variable("--lane-cover"));
    colours.empty = variable("--empty");
    colours.lanes = Array.from({ length: map.lanes }, (_, lane) => {
      // The golden angle keeps lanes with neighbouring numbers far apart; three shades tell like hues apart.
      const hue = (lane * 137.508 + 25) % 360, light = base + [0, -0.1, 0.1][lane % 3];
      return `oklch(${light.toFixed(2)} ${[0.14, 0.13, 0.11][lane % 3]} ${hue.toFixed(1)})`;
    });
    for (const button of document.querySelectorAll("[data-lane]")) button.querySelector("i").style.background = colours.lanes[button.dataset.lane];
    colours.loads = Array.from({ length: 64 }, (_, i) => `rgb(${heat.shade((i + 1) / 64, colours.heat, 1).join()})`);
  }

  const colourOf = (cell, mode) => {
    if (mode == "lane") return colours.lanes[cell.lane];
    return cell.records ? colours.loads[Math.min(63, Math.floor(loadShare(cell.density) * 64))] : colours.empty;
  };

  // The finest resolution whose sides are still to be seen, two pixels and a half.
  function level() {
    const km = KM_PER_DEGREE * Math.cos(latitude(view.y) * Math.PI / 180) / view.k;
    const at = Math.floor(Math.log(1281 / (2.5 * km)) / Math.log(Math.sqrt(7)));
    return Math.max(coarsest, Math.min(finest, at));
  }

  const shown = (cell, at) => cell.leaves ? cell.resolution == at : cell.resolution <= at;

  // Every copy of the world that a view can reach: the map goes on beyond the 180th meridian.
  const TURNS = [-TURN, 0, TURN];

  const seen = (box, turn) => {
    const dx = width / 2 / view.k, dy = height / 2 / view.k;
    return box[2] + turn >= view.x - dx && box[0] + turn <= view.x + dx && box[3] >= view.y - dy && box[1] <= view.y + dy;
  };

  // A layer is good for views inside its box, and from so many pixels a degree on.
  function landLayer() {
    const dx = width / 2 / view.k, dy = height / 2 / view.k;
    return map.land.find((layer) => {
      if (view.k < (layer.from ?? 0)) return false;
      if (!layer.box) return true;
      const [south, west, top, east] = layer.box;
      return west <= view.x - dx && east >= view.x + dx && north(top) <= view.y - dy && north(south) >= view.y + dy;
    });
  }

  function trace(context, points, turn, close) {
    const k = view.k, ox = width / 2 + (turn - view.x) * k, oy = height / 2 - view.y * k;
    let lastX = ox + points[0] * k, lastY = oy + points[1] * k;
    context.moveTo(lastX, lastY);
    const step = points.length > 40 ? 0.6 : 0;
    for (let i = 2; i < points.length; i += 2) {
      const x = ox + points[i] * k, y = oy + points[i + 1] * k;
      if (Math.abs(x - lastX) + Math.abs(y - lastY) < step) continue;
      context.lineTo(x, y);
      lastX = x;
      lastY = y;
    }
    if (close) context.closePath();
  }

  function traceLand(layer) {
    context.beginPath();
    for (const turn of TURNS) for (const one of layer.outlines) if (seen(one.box, turn)) trace(context, one.points, turn, true);
  }

  // Cells are drawn whole on a sheet of their own, coarse below fine, and the sheet is then laid over the land: between
  // two resolutions hexagons overlap, and what is laid twice would be darker.
  const sheet = document.createElement("canvas");

  function paint(over, groups, shape, side = 0) {
    for (const [colour, found] of groups) {
      over.fillStyle = colour;
      over.beginPath();
      for (const [cell, turn] of found) if (shape(cell)) trace(over, shape(cell), turn, true);
      over.fill();
      if (!side) continue;
      over.beginPath();
      for (const [cell, turn] of found) if (!cell.parts || side <= 5) trace(over, cell.points, turn, true);
      over.strokeStyle = side > 5 ? colours.edge : colour;
      over.lineWidth = side > 5 ? 0.8 : 0.4;
      over.stroke();
    }
  }

  function drawCells() {
    const mode = colouring(), at = level(), sheets = new Map();
    let drawn = 0;
    for (const turn of TURNS) for (const cell of cells) {
      if (!shown(cell, at) || !seen(cell.box, turn)) continue;
      drawn++;
      if (only !== null && (cell.leaves ? !cell.has?.has(only) : cell.lane != only)) continue;
      const colour = only !== null && mode == "lane" ? colours.lanes[only] : colourOf(cell, mode);
      if (!sheets.has(cell.resolution)) sheets.set(cell.resolution, new Map());
      const groups = sheets.get(cell.resolution);
      if (!groups.has(colour)) groups.set(colour, []);
      groups.get(colour).push([cell, turn]);
    }
    sheet.width = canvas.width;
    sheet.height = canvas.height;
    const over = sheet.getContext("2d"), side = sideOf(at);
    over.setTransform(context.getTransform());
    over.lineJoin = "round";
    // What leaves cover beyond their hexagons is seen only where no hexagon lies: in the gaps between two resolutions.
    const coarseFirst = [...sheets].sort(([a], [b]) => a - b).map(([, groups]) => groups);
    if (side > 2) for (const groups of coarseFirst.toReversed()) paint(over, groups, (cell) => cell.parts);
    for (const groups of coarseFirst) paint(over, groups, (cell) => cell.points, side);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.globalAlpha = mode == "lane" ? colours.cover : 0.9;
    context.drawImage(sheet, 0, 0);
    context.globalAlpha = 1;
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return drawn;
  }

  const sideOf = (resolution) => 1281 / Math.pow(Math.sqrt(7), resolution) / KM_PER_DEGREE / Math.cos(latitude(view.y) * Math.PI / 180) * view.k;

  // From near, what lies in the sea is paler, so that the shape of the land is seen through the cells.
  function drawSea(layer) {
    if (view.k < 40) return;
    context.beginPath();
    context.rect(0, 0, width, height);
    for (const turn of TURNS) for (const one of layer.outlines) if (seen(one.box, turn)) trace(context, one.points, turn, true);
    context.globalAlpha = 0.62;
    context.fillStyle = colours.sea;
    context.fill("evenodd");
    context.globalAlpha = 1;
  }

  const placed = (lat, lng, turn) => [width / 2 + (lng + turn - view.x) * view.k, height / 2 + (north(lat) - view.y) * view.k];

  // Words over the map, none over another: lanes where a cell is large enough for its number, then towns by rank.
  function drawWords() {
    const taken = [], at = level();
    const write = (text, x, y, size, bold, align) => {
      context.font = `${bold ? 650 : 500} ${size}px system-ui, sans-serif`;
      const wide = context.measureText(text).width, left = align == "center" ? x - wide / 2 : x;
      const box = [left - 2, y - size * 0.7, left + wide + 2, y + size * 0.7];
      if (box[0] < 0 || box[2] > width || box[1] < 0 || box[3] > height) return false;
      if (taken.some((one) => box[0] < one[2] && box[2] > one[0] && box[1] < one[3] && box[3] > one[1])) return false;
      taken.push(box);
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.lineJoin = "round";
      context.lineWidth = 3.2;
      context.strokeStyle = colours.land;
      context.strokeText(text, left, y);
      context.fillStyle = colours.ink;
      context.fillText(text, left, y);
      return true;
    };
    let towns = 0;
    for (const [name, lat, lng, rank] of map.towns) for (const turn of TURNS) {
      if (towns >= Math.max(4, width / 45)) break;
      if (view.k < 3 * Math.pow(1.6, rank)) continue;
      const [x, y] = placed(lat, lng, turn);
      if (x < 0 || x > width || y < 0 || y > height || !write(name, x + 6, y, 13, false, "left")) continue;
      towns++;
      context.beginPath();
      context.arc(x, y, 2.6, 0, 2 * Math.PI);
      context.fill();
    }
    stage.dataset.towns = towns;
    if (colouring() != "lane") return;
    let lanes = 0;
    for (const turn of TURNS) for (const cell of cells) {
      if (cell.leaves || !shown(cell, at) || !seen(cell.box, turn) || (only !== null && cell.lane != only)) continue;
      const wide = (cell.box[2] - cell.box[0]) * view.k;
      if (wide < 22) continue;
      const x = width / 2 + ((cell.box[0] + cell.box[2]) / 2 + turn - view.x) * view.k, y = height / 2 + ((cell.box[1] + cell.box[3]) / 2 - view.y) * view.k;
      if (write(String(cell.lane), x, y, wide > 60 ? 14 : 11, true, "center")) lanes++;
    }
    stage.dataset.numbers = lanes;
  }

  function drawMarks() {
    for (const turn of TURNS) for (const [lat, lng] of map.marks) {
      const [x, y] = placed(lat, lng, turn);
      if (x < -8 || x > width + 8 || y < -8 || y > height + 8) continue;
      context.beginPath();
      context.arc(x, y, 4, 0, 2 * Math.PI);
      context.fillStyle = colours.before;
      context.fill();
      context.lineWidth = 1.4;
      context.strokeStyle = colours.land;
      context.stroke();
    }
  }

  // The more copies the thicker, but never so thick that a cell is lost between its borders.
  function drawBorders() {
    if (!withBorders()) return;
    const groups = new Map(), least = view.k < 8 ? 2 : view.k < 40 ? 1 : 0, k = view.k;
    for (const turn of TURNS) for (const border of borders) {
      const one = border.cells[0];
      if (border.class < least || !seen(one.box, turn)) continue;
      if (only !== null && border.cells.every((cell) => cell.lane != only)) continue;
      const key = border.class * 16 + one.resolution;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push([border.points, turn]);
    }
    context.lineCap = "round";
    context.strokeStyle = colours.line;
    for (const [key, found] of [...groups].sort(([a], [b]) => a - b)) {
      const share = Math.floor(key / 16) / (CLASSES - 1);
      context.beginPath();
      for (const [points, turn] of found) points.forEach(([x, y], n) => {
        const px = width / 2 + (x + turn - view.x) * k, py = height / 2 + (y - view.y) * k;
        if (n) context.lineTo(px, py); else context.moveTo(px, py);
      });
      context.globalAlpha = 0.35 + 0.65 * share;
      context.lineWidth = Math.max(0.25, Math.min(0.6 + 4 * share, sideOf(key % 16) * (0.06 + 0.16 * share)));
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  function drawPointed() {
    if (!pointed) return;
    context.beginPath();
    for (const turn of TURNS) if (seen(pointed.box, turn)) trace(context, pointed.points, turn, true);
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    context.stroke();
  }

  // A bar as long as a round number of kilometres, true in the middle of the view: Mercator's scale grows to the poles.
  function drawScale() {
    const km = KM_PER_DEGREE * Math.cos(latitude(view.y) * Math.PI / 180) / view.k;
    const rough = km * Math.min(160, width / 4), base = Math.pow(10, Math.floor(Math.log10(rough)));
    const length = [5, 2, 1].map((part) => part * base).find((one) => one <= rough);
    const bar = stage.querySelector(".scale-bar");
    bar.style.width = length / km + "px";
    bar.textContent = length >= 1 ? `${number.format(length)} km` : `${number.format(length * 1000)} m`;
  }

  function draw() {
    queued = false;
    const ratio = devicePixelRatio || 1, box = canvas.getBoundingClientRect();
    width = box.width;
    height = box.height;
    hold();
    if (canvas.width != Math.round(width * ratio) || canvas.height != Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.sea;
    context.fillRect(0, 0, width, height);
    const layer = landLayer();
    traceLand(layer);
    context.fillStyle = colours.land;
    context.fill("evenodd");
    const drawn = drawCells();
    drawSea(layer);
    traceLand(layer);
    context.strokeStyle = colours.coast;
    context.lineWidth = view.k > 30 ? 1.2 : 0.7;
    context.stroke();
    drawBorders();
    drawMarks();
    drawWords();
    drawPointed();
    drawScale();
    stage.dataset.level = level();
    stage.dataset.cells = drawn;
    stage.dataset.layer = map.land.indexOf(layer);
  }

  const later = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };

  // Never past the ends of the map, never so far out that the world is seen twice, never closer than a kilometre.
  function hold() {
    const top = -north(FURTHEST), least = Math.max(width / TURN, height / (2 * top));
    view.k = Math.max(least, Math.min(width * KM_PER_DEGREE, view.k));
    const reach = Math.max(0, top - height / 2 / view.k);
    view.y = Math.max(-reach, Math.min(reach, view.y));
    view.x = ((view.x + 180) % TURN + TURN) % TURN - 180;
  }

  function goTo(name) {
    const { box: [south, west, top, east] } = map.views.find((one) => one.name == name);
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    const [low, high] = [north(south), north(top)];
    view.k = Math.min(width / (east - west), height / (low - high));
    view.x = (west + east) / 2;
    view.y = (low + high) / 2;
    for (const button of document.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", button.dataset.view == name);
    later();
  }

  function moved() {
    for (const button of document.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", false);
    later();
  }

  function zoom(by, x = width / 2, y = height / 2) {
    const px = view.x + (x - width / 2) / view.k, py = view.y + (y - height / 2) / view.k;
    view.k *= by;
    hold();
    view.x = px - (x - width / 2) / view.k;
    view.y = py - (y - height / 2) / view.k;
    moved();
  }

  function inside(points, x, y) {
    let is = false;
    for (let i = 0, j = points.length - 2; i < points.length; j = i, i += 2) {
      if (points[i + 1] > y != points[j + 1] > y && x < (points[j] - points[i]) * (y - points[i + 1]) / (points[j + 1] - points[i + 1]) + points[i]) is = !is;
    }
    return is;
  }

  // The last drawn lies on top.
  function cellAt(px, py) {
    const x = view.x + (px - width / 2) / view.k, y = view.y + (py - height / 2) / view.k, at = level();
    for (let i = cells.length - 1; i >= 0; i--) {
      const cell = cells[i];
      if (!shown(cell, at) || y < cell.box[1] || y > cell.box[3]) continue;
      for (const turn of TURNS) {
        if (x - turn >= cell.box[0] && x - turn <= cell.box[2] && inside(cell.points, x - turn, y)) return cell;
      }
    }
    return null;
  }

  const percent = (share) => `${(share * 100).toPrecision(2).replace(/e.*/, "")}%`;
  const rounded = (value) => number.format(value < 10 ? +value.toPrecision(2) : Math.round(value));

  function says(cell) {
    const unit = cell.records == 1 ? map.unit.slice(0, -1) : map.unit;
    const records = `${number.format(cell.records)} ${unit}, ${rounded(cell.density)} per km²`;
    const asked = map.counted ? [`${number.format(cell.requests)} requests, ${number.format(cell.copies)} copies in other lanes`] : [];
    if (cell.leaves) {
      const most = cell.on == 1 ? `all on lane ${cell.lane}` : `most of it on lane ${cell.lane}: ${percent(cell.top / (cell.records || 1))}`;
      return [`${number.format(cell.leaves)} cells on ${cell.on} ${cell.on == 1 ? "lane" : "lanes"}`, records, ...asked, most, "zoom in to see them"];
    }
    const lines = [`lane ${cell.lane}`, `cell ${cell.name}, resolution ${cell.resolution}`, records, ...asked];
    if (cell.on > 1) lines.push(`parts of it are on ${cell.on - 1} other ${cell.on == 2 ? "lane" : "lanes"}`);
    else lines.push(`${percent(cell.records / (laneRecords[cell.lane] || 1))} of the lane`);
    if (cell.hour >= 0) lines.push(`busiest at ${String(cell.hour).padStart(2, "0")}:00`);
    if (map.counted) return lines;
    const copies = cell.borders.reduce((sum, border) => sum + border.copies, 0);
    const others = [...new Set(cell.borders.map((border) => border.cells.find((one) => one != cell).lane))].sort((a, b) => a - b);
    if (copies) lines.push(`about ${rounded(copies)} copies over its borders, with ${others.length == 1 ? "lane" : "lanes"} ${others.slice(0, 8).join(", ")}${others.length > 8 ? ", …" : ""}`);
    return lines;
  }

  function point(px, py) {
    const found = cellAt(px, py), box = canvas.getBoundingClientRect();
    if (found != pointed) { pointed = found; later(); }
    if (!found) { tip.hidden = true; return; }
    show(says(found), { x: box.left + px, y: box.top + py });
  }

  const leave = () => { tip.hidden = true; if (pointed) { pointed = null; later(); } };

  function listen() {
    const held = new Map();
    const at = (event) => { const box = canvas.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture?.(event.pointerId); held.set(event.pointerId, at(event)); });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => held.delete(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      const now = at(event), before = held.get(event.pointerId);
      if (!before) return point(now.x, now.y);
      leave();
      if (held.size == 2) {
        const other = [...held].find(([id]) => id != event.pointerId)[1];
        const apart = (one) => Math.hypot(one.x - other.x, one.y - other.y) || 1;
        zoom(apart(now) / apart(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
      } else {
        view.x -= (now.x - before.x) / view.k;
        view.y -= (now.y - before.y) / view.k;
        moved();
      }
      held.set(event.pointerId, now);
    });
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("blur", leave);
    canvas.addEventListener("dblclick", (event) => zoom(2, at(event).x, at(event).y));
    // The wheel scrolls the page until the map was chosen, by a click or with Control.
    canvas.addEventListener("wheel", (event) => {
      if (document.activeElement != canvas && !event.ctrlKey) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * 0.0016), at(event).x, at(event).y);
    }, { passive: false });
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    canvas.addEventListener("keydown", (event) => {
      if (event.key == "Escape") return leave();
      const step = steps[event.key], by = { "+": 1.6, "=": 1.6, "-": 1 / 1.6 }[event.key];
      if (!step && !by) return;
      event.preventDefault();
      if (by) zoom(by); else { view.x += step[0] * width / 8 / view.k; view.y += step[1] * height / 8 / view.k; moved(); }
      hold();
      point(width / 2, height / 2);
    });
    for (const button of document.querySelectorAll("[data-view]")) button.addEventListener("click", () => goTo(button.dataset.view));
    for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
    for (const one of document.querySelectorAll("[name=colour], [name=borders]")) one.addEventListener("change", () => { legend(); later(); });
    const choice = document.querySelector("[name=lane]"), chips = document.querySelectorAll("[data-lane]");
    const choose = () => {
      only = choice.value === "" ? null : Number(choice.value);
      for (const chip of chips) chip.setAttribute("aria-pressed", only === Number(chip.dataset.lane));
      later();
    };
    choice.addEventListener("change", choose);
    for (const chip of chips) chip.addEventListener("click", () => { choice.value = choice.value === chip.dataset.lane ? "" : chip.dataset.lane; choose(); });
  }

  // Which lanes an ancestor holds, so that one lane can be shown alone at every zoom.
  function lanesWithin() {
    const index = new Map(cells.map((cell) => [cell.name, cell]));
    const bits = (name, at) => {
      const value = BigInt("0x" + name), filler = (1n << BigInt(3 * (15 - at))) - 1n;
      return ((value & ~(15n << 52n)) | (BigInt(at) << 52n) | filler).toString(16).padStart(15, "0");
    };
    for (const cell of cells) if (!cell.leaves) {
      for (let at = coarsest; at < cell.resolution; at++) {
        const above = index.get(bits(cell.name, at));
        if (above) (above.has ??= new Set()).add(cell.lane);
      }
    }
  }

  function legend() {
    for (const one of document.querySelectorAll("[data-legend]")) one.hidden = one.dataset.legend != colouring();
    const ticks = document.querySelector(".load-ticks"), made = [];
    for (let power = Math.ceil(Math.log10(thinnest)); power <= Math.log10(densest); power++) {
      const share = loadShare(Math.pow(10, power));
      if (share < 0.04 || share > 0.97) continue;
      const label = document.createElementNS("http://www.w3.org/2000/svg", "text");
      label.textContent = power < 0 ? Math.pow(10, power).toString() : power > 3 ? `${number.format(Math.pow(10, power) / 1000)}k` : number.format(Math.pow(10, power));
      label.setAttribute("x", share * 100 + "%");
      label.setAttribute("y", 25);
      label.setAttribute("text-anchor", "middle");
      made.push(label);
    }
    ticks.replaceChildren(...made);
  }

  lanesWithin();
  readColours();
  listen();
  legend();
  goTo(stage.dataset.open);
  draw();
  new ResizeObserver(later).observe(canvas);
  const recolour = () => { readColours(); later(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  matchMedia("print").addEventListener("change", recolour);
  document.documentElement.dataset.map = "yes";
})();
