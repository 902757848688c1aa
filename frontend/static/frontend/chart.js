// Draws the figures that the server builds; tokens such as var(--team-0) become the theme's colours.
(() => {
  "use strict";
  const OPTIONS = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const colour = (token) => { probe.style.color = token; return getComputedStyle(probe).color; };
  const resolve = (value) => {
    if (typeof value === "string") {
      const token = /^var\((--[\w-]+)(?:, ([\d.]+))?\)$/.exec(value); // a fallback stands for the opacity
      return token ? colour(`var(${token[1]})`).replace(/^rgb\((.*)\)$/, `rgba($1, ${token[2] ?? 1})`) : value;
    }
    if (Array.isArray(value)) return value.map(resolve);
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, resolve(v)]));
    return value;
  };
  const draw = async (element) => {
    try {
      const answer = await fetch(element.dataset.chart, { headers: { Accept: "application/json", "X-Weft-Live": "1" } });
      if (answer.status === 401) document.dispatchEvent(new Event("weft:refused"));
      if (!answer.ok) throw new Error(answer.status);
      element.figure = await answer.json();
      element.classList.remove("failed");
      paint(element);
    } catch { if (!element.figure) { element.textContent = "The chart could not be loaded. The table has the same numbers."; element.classList.add("failed"); } }
    element.classList.remove("loading");
  };
  const paint = (element) => {
    if (!element.figure) return;
    const { data, layout } = element.figure;
    Plotly.react(element, resolve(data), resolve(layout), OPTIONS);
  };
  const all = () => document.querySelectorAll("[data-chart]");
  document.addEventListener("weft:theme", () => all().forEach(paint));
  document.addEventListener("htmx:load", (event) => { for (const e of event.target.querySelectorAll?.("[data-chart]") ?? []) if (!e.figure) draw(e); });
  let due = 0;
  document.body.addEventListener("live-usage", () => { if (Date.now() > due) { due = Date.now() + 5000; all().forEach(draw); } });
  all().forEach(draw);
})();
