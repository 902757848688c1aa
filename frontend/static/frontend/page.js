// The page's own behaviour: theme, keys, dialogs, toasts, copying, relative times. No framework.
(() => {
  "use strict";
  const root = document.documentElement;
  const $ = (selector, from = document) => from.querySelector(selector);

  // --- theme: remembered in a cookie, so that the server draws the next page in it at once
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const setTheme = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    document.cookie = `weft_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
    document.dispatchEvent(new Event("weft:theme"));
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("weft:theme")));

  // --- dialogs: fetched by htmx into the one <dialog>, which opens when it gets content
  const dialog = $("#dialog");
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target === dialog && dialog.innerHTML.trim() && !dialog.open) dialog.showModal();
  });

  // --- parts that did not change are not swapped: no flicker, no lost selection
  const before = new WeakMap();
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr } = event.detail;
    if (!target || !target.hasAttribute("data-live")) return;
    if (before.get(target) === xhr.responseText) event.detail.shouldSwap = false;
    before.set(target, xhr.responseText);
  });

  document.addEventListener("click", (event) => {
    const at = event.target.closest("[data-do]");
    if (!at) return;
    const does = {
      theme: setTheme,
      keys: () => $("#keys").showModal(),
      close: () => at.closest("dialog, .toast").tagName === "DIALOG" ? at.closest("dialog").close() : at.closest(".toast").remove(),
      copy: () => {
        const text = $(at.dataset.of).textContent;
        const done = () => { const label = at.textContent; at.textContent = "Copied"; setTimeout(() => { at.textContent = label; }, 1500); };
        navigator.clipboard ? navigator.clipboard.writeText(text).then(done) : done();
      },
      wrap: () => $(at.dataset.of).classList.toggle("nowrap", !at.checked),
    };
    does[at.dataset.do]();
  });

  // --- keys
  let armed = 0;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape")) return;
    if (typing) { typing.blur(); return; }
    if (event.key === "/") { const box = $("#search"); if (box) { box.focus(); event.preventDefault(); } return; }
    if (event.key === "?") { $("#keys").showModal(); return; }
    if (event.key === "g") { armed = Date.now(); return; }
    if (Date.now() - armed < 1500) {
      const link = document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`);
      armed = 0;
      if (link) link.click();
    }
  });

  // --- relative times follow the cluster's clock between two swaps
  const units = (s) => {
    s = Math.max(0, s);
    if (s < 60) return `${Math.round(s)} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) { const m = Math.floor(s / 60) % 60; return `${Math.floor(s / 3600)} h${m ? ` ${m} min` : ""}`; }
    const h = Math.floor(s / 3600) % 24; return `${Math.floor(s / 86400)} d${h ? ` ${h} h` : ""}`;
  };
  document.addEventListener("weft:clock", (event) => {
    const now = event.detail.now;
    for (const time of document.querySelectorAll("time[data-at]")) {
      const text = units(now - Number(time.dataset.at)) + (time.dataset.suffix ? ` ${time.dataset.suffix}` : "");
      if (time.textContent !== text) time.textContent = text;
    }
    const face = $("#clock-face");
    if (face) face.textContent = new Date(now * 1000).toISOString().slice(11, 19);
  });

  // --- filters submit themselves; empty ones stay out of the URL
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-auto]");
    if (form && event.target.matches("select")) form.requestSubmit();
  });
  document.addEventListener("submit", (event) => {
    if (event.target.matches("form[data-auto]")) for (const input of event.target.elements) if (!input.value) input.disabled = true;
  });
  for (const toast of document.querySelectorAll(".toast:not(.error)")) setTimeout(() => toast.remove(), 8000);
})();
