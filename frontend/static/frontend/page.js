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

  // --- strips that scroll (the side bar of a phone, tabs) begin where one is
  for (const here of document.querySelectorAll(":is(.side, .tabs, .segments) [aria-current]")) {
    const strip = here.closest(".side, .tabs, .segments"), box = strip.getBoundingClientRect(), at = here.getBoundingClientRect();
    if (at.right > box.right || at.left < box.left) strip.scrollLeft += at.left - box.left - (box.width - at.width) / 2;
  }

  // --- dialogs: fetched by htmx into the one <dialog>, which opens when it gets content
  const dialog = $("#dialog");
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target === dialog && dialog.innerHTML.trim() && !dialog.open) dialog.showModal();
  });

  // --- what a person asked for and did not get is said; what a part asks for by itself is the live mark's business
  const WHY = { 0: "Weft did not answer. Check whether it was done before you try again.", 403: "Your role does not allow this.", 404: "It no longer exists." };
  const failed = (event) => {
    const { target, xhr, requestConfig } = event.detail;
    if (xhr.status === 401) return; // session.js says so
    if (target !== dialog && !["click", "submit"].includes(requestConfig.triggeringEvent?.type)) return;
    const toast = Object.assign(document.createElement("div"), { className: "toast error" });
    toast.append(Object.assign(document.createElement("span"), { textContent: WHY[xhr.status] ?? `Weft could not do this (${xhr.status}). Nothing was changed.` }));
    toast.append(Object.assign(document.createElement("button"), { className: "link", type: "button", textContent: "✕", ariaLabel: "Close" }));
    toast.lastChild.dataset.do = "close";
    $("#toasts").append(toast);
  };
  document.addEventListener("htmx:responseError", failed);
  document.addEventListener("htmx:sendError", failed);

  // --- parts that did not change are not swapped: no flicker, no lost selection
  const before = new WeakMap();
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr } = event.detail;
    if (!target || !target.hasAttribute("data-live")) return;
    if (before.get(target) === xhr.responseText) event.detail.shouldSwap = false;
    before.set(target, xhr.responseText);
  });

  // --- the keyboard's focus in a live part stays where it is when the part is swapped
  let kept = null;
  const same = (element, part) => element.id ? document.getElementById(element.id)
    : element.getAttribute("href") ? [...part.querySelectorAll("a[href]")].find((link) => link.getAttribute("href") === element.getAttribute("href") && link.textContent === element.textContent) : null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target } = event.detail;
    kept = target?.hasAttribute("data-live") && target.contains(document.activeElement) ? document.activeElement : null;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (kept && !kept.isConnected) same(kept, event.target)?.focus({ preventScroll: true });
    kept = null;
  });

  document.addEventListener("click", (event) => {
    const at = event.target.closest("[data-do]");
    if (!at) return;
    const does = {
      theme: setTheme,
      keys: () => $("#keys").showModal(),
      close: () => {
        const box = at.closest("dialog, .toast");
        if (!box) history.back(); // a question on a page of its own
        else if (box.tagName === "DIALOG") box.close();
        else box.remove();
      },
      copy: () => {
        const text = $(at.dataset.of).textContent;
        const done = () => { const label = at.textContent; at.textContent = "Copied"; setTimeout(() => { at.textContent = label; }, 1500); };
        navigator.clipboard ? navigator.clipboard.writeText(text).then(done) : done();
      },
      wrap: () => $(at.dataset.of).classList.toggle("nowrap", !at.checked),
      print: () => window.print(),
    };
    does[at.dataset.do]();
  });

  // --- search: what is found stands below the field; arrows go through it, Escape puts it away
  const search = $("#search"), hits = $("#hits");
  const links = () => [...hits.querySelectorAll("[data-hit]")];
  if (hits) {
    document.addEventListener("htmx:afterSwap", (event) => { if (event.target === hits) hits.hidden = !search.value.trim(); });
    search.addEventListener("input", () => { if (!search.value.trim()) hits.hidden = true; });
    search.form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { hits.hidden = true; search.focus(); search.blur(); event.stopPropagation(); return; }
      if ((event.key !== "ArrowDown" && event.key !== "ArrowUp") || hits.hidden) return;
      const found = links(), to = found.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      (to < 0 ? search : found[Math.min(to, found.length - 1)])?.focus();
      event.preventDefault();
    });
    search.form.addEventListener("submit", (event) => { const [first] = links(); if (first && !hits.hidden) { event.preventDefault(); first.click(); } });
    document.addEventListener("focusin", (event) => { if (!search.form.contains(event.target)) hits.hidden = true; });
    document.addEventListener("click", (event) => { if (!search.form.contains(event.target)) hits.hidden = true; });
  }

  // --- keys
  let armed = 0;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    const types = typing && typing.type !== "checkbox";
    if (event.ctrlKey || event.metaKey || event.altKey || (types && event.key !== "Escape") || document.querySelector("dialog[open]")) return;
    if (types) { typing.blur(); return; }
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
  // --- a slider says where it stands
  document.addEventListener("input", (event) => {
    const output = event.target.matches('input[type="range"][id]') && event.target.form?.querySelector(`output[for="${CSS.escape(event.target.id)}"]`);
    if (output) output.textContent = `${event.target.value} %`;
  });
  // --- toasts go by themselves, but not while one is in use; one with an undo stays longer
  for (const toast of document.querySelectorAll(".toast:not(.error)")) {
    const leave = () => (toast.matches(":hover, :focus-within") ? setTimeout(leave, 2000) : toast.remove());
    setTimeout(leave, toast.querySelector("form") ? 20000 : 8000);
  }
})();
