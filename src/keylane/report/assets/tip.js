// The words beside the pointer; every page that has a #tip shows them by this.
const tips = (() => {
  function show(lines, at) {
    const tip = document.getElementById("tip");
    tip.replaceChildren(...lines.map((line, i) => {
      const made = document.createElement(i ? "span" : "b");
      made.textContent = line;
      return made;
    }));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(document.documentElement.clientWidth - box.width - 8, at.x + 14)) + "px";
    tip.style.top = (at.y + 18 + box.height > innerHeight ? Math.max(8, at.y - box.height - 12) : at.y + 18) + "px";
  }

  return { show };
})();
