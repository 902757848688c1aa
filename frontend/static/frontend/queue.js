// The queue's what-if by mouse: a dragged row is tried at the place it was dropped on. By keyboard: each row's button.
(() => {
  "use strict";
  let dragged = null;
  const row = (event) => event.target.closest?.("tr[data-uid]");
  document.addEventListener("dragstart", (event) => {
    dragged = row(event);
    if (!dragged) return;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.dataset.uid);
    dragged.classList.add("dragged");
  });
  document.addEventListener("dragover", (event) => {
    const over = row(event);
    if (!dragged || !over || over === dragged) return;
    event.preventDefault();
    document.querySelectorAll("tr.over").forEach((one) => one.classList.remove("over", "below"));
    over.classList.add("over");
    over.classList.toggle("below", over.rowIndex > dragged.rowIndex); // it would come behind this one
  });
  document.addEventListener("drop", (event) => {
    const over = row(event);
    if (!dragged || !over || over === dragged) return;
    event.preventDefault();
    const rows = document.getElementById("rows");
    rows.setAttribute("aria-busy", "true");
    htmx.ajax("POST", rows.dataset.dryRun, { target: "#dialog", swap: "innerHTML", values: { uid: dragged.dataset.uid, target: over.dataset.uid } })
      .finally(() => rows.removeAttribute("aria-busy"));
  });
  document.addEventListener("dragend", () => {
    document.querySelectorAll("tr.over, tr.dragged").forEach((one) => one.classList.remove("over", "below", "dragged"));
    dragged = null;
  });
  // The list does not change under a row that is being dragged.
  document.addEventListener("htmx:beforeSwap", (event) => { if (dragged && event.detail.target?.id === "rows") event.detail.shouldSwap = false; });
})();
