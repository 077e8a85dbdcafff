"use strict";
// The colours of a heat map; every page that has one draws by these.
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

  return { palette, shade };
})();
