"use strict";
// The colours of a heat map, and what answers to pointer and keys on it; every page that has one draws by these.
const heat = (() => {
  const STOPS = 9;

  // They are the style sheet's, so that light, dark and paper each have their own.
  function palette() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => {
      const hex = style.getPropertyValue(name).trim().slice(1);
      return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
    };
    return { empty: colour("--empty"), stops: Array.from({ length: STOPS }, (_, i) => colour("--h" + i)) };
  }

  function shade(share, colours, power) {
    if (share <= 0) return colours.empty;
    const at = Math.pow(share, power) * (STOPS - 1);
    const i = Math.min(STOPS - 2, Math.floor(at));
    return colours.stops[i].map((from, c) => Math.round(from + (colours.stops[i + 1][c] - from) * (at - i)));
  }

  function shape(name, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // The frame around one cell of a map.
  function frame(map, x, y) {
    const cursor = map.querySelector(".cursor"), canvas = map.querySelector("canvas");
    const width = canvas.clientWidth / canvas.width, height = canvas.clientHeight / canvas.height;
    cursor.hidden = false;
    cursor.style.left = canvas.offsetLeft + x * width - 2 + "px";
    cursor.style.top = canvas.offsetTop + y * height - 2 + "px";
    cursor.style.width = width + 4 + "px";
    cursor.style.height = height + 4 + "px";
  }

  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  // Calls point(map, x, y, at) with the cell that the pointer or the arrow keys are on.
  function listen(map, point) {
    const canvas = map.querySelector("canvas");
    let x = 0, y = 0;
    const within = (value, size) => Math.max(0, Math.min(size - 1, value));
    const leave = () => { document.getElementById("tip").hidden = true; map.querySelector(".cursor").hidden = true; };
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      x = within(Math.floor((event.clientX - box.left) / box.width * canvas.width), canvas.width);
      y = within(Math.floor((event.clientY - box.top) / box.height * canvas.height), canvas.height);
      point(map, x, y, { x: event.clientX, y: event.clientY });
    });
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("blur", leave);
    canvas.addEventListener("keydown", (event) => {
      if (event.key == "Escape") leave();
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      x = within(x + step[0], canvas.width);
      y = within(y + step[1], canvas.height);
      const box = canvas.getBoundingClientRect();
      point(map, x, y, { x: box.left + (x + 1) / canvas.width * box.width, y: box.top + (y + 1) / canvas.height * box.height });
    });
  }

  return { palette, shade, shape, frame, listen, STEPS };
})();
