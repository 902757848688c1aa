// A table of rows: choosing several with mouse or keys, kept while the table is swapped; j, k, x and Enter.
(() => {
  "use strict";
  const panel = document.querySelector("[data-rows]");
  if (!panel) return;
  const chosen = new Set();
  const boxes = () => [...panel.querySelectorAll('input[name="uid"]')];
  const show = () => {
    for (const box of boxes()) box.checked = chosen.has(box.value);
    const all = panel.querySelector("#choose-all"), count = panel.querySelector("#chosen-count");
    if (!count) return;
    if (all) { all.checked = boxes().length > 0 && boxes().every((box) => box.checked); all.indeterminate = !all.checked && chosen.size > 0; }
    const text = chosen.size ? `${chosen.size} chosen` : "None chosen";
    if (count.textContent !== text) count.textContent = text;
    for (const button of panel.querySelectorAll(".bulk button")) button.disabled = chosen.size === 0;
  };
  panel.addEventListener("change", (event) => {
    const box = event.target;
    const changed = box.id === "choose-all" ? boxes() : [box];
    for (const one of changed) if (one.name === "uid") box.checked ? chosen.add(one.value) : chosen.delete(one.value);
    show();
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target !== panel) return;
    const there = new Set(boxes().map((box) => box.value));
    for (const uid of [...chosen]) if (!there.has(uid)) chosen.delete(uid);
    show();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest('input:not([type="checkbox"]), textarea, select')) return;
    const rows = [...panel.querySelectorAll("tbody tr")], here = document.activeElement.closest?.("tbody tr");
    const at = rows.indexOf(here);
    if (event.key === "j" || event.key === "k") {
      const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + (event.key === "j" ? 1 : -1)))];
      next?.querySelector("a.name")?.focus();
    } else if (event.key === "x" && here) here.querySelector('input[name="uid"]')?.click();
    else return;
    event.preventDefault();
  });
  show();
})();
