// A large map: the nodes of a rack come when it is looked at, and again while it is, or when it is once more, after news.
// Without it each rack is a link.
(() => {
  "use strict";
  const THROTTLE = 3000, AHEAD = "200px";
  const seen = new Set();
  let news = 0, due = 0;
  const load = (rack, event) => {
    if (rack.dataset.news === String(news)) return;
    rack.dataset.news = news;
    const failed = () => { delete rack.dataset.news; };
    htmx.ajax("GET", rack.dataset.rack, { source: rack, target: rack, swap: "innerHTML", event }).catch(failed);
  };
  const look = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
    if (!isIntersecting) { seen.delete(target); return; }
    seen.add(target);
    load(target);
  }), { rootMargin: AHEAD });
  document.querySelectorAll("[data-rack]").forEach((rack) => look.observe(rack));
  document.body.addEventListener("live-workloads", (event) => {
    if (due) return;
    due = setTimeout(() => { due = 0; news += 1; seen.forEach((rack) => load(rack, event)); }, THROTTLE);
  });
})();
