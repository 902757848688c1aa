// The first visit's tour: one step at a time, each beside what it is about. Escape, or its last step, dismisses it.
(() => {
  "use strict";
  const tour = document.getElementById("tour");
  if (!tour) return;
  const steps = [...tour.querySelectorAll("li")], count = tour.querySelector("[data-count]");
  const back = tour.querySelector('[data-tour="back"]'), next = tour.querySelector('[data-tour="next"]');
  let at = 0;
  const about = () => document.querySelector(steps[at].dataset.at);
  const mark = (on) => about()?.classList.toggle("toured", on);
  // The tour itself lies over the lower part of the window: what it is about has to begin above that.
  const show = (what) => {
    const { top } = what.getBoundingClientRect();
    if (what.checkVisibility() && (top < 0 || top > innerHeight / 2)) what.scrollIntoView({ block: "start" });
  };
  const go = (to) => {
    mark(false);
    at = to;
    steps.forEach((step, i) => { step.hidden = i !== at; });
    mark(true);
    if (about()) show(about());
    count.textContent = `${at + 1} of ${steps.length}`;
    back.hidden = at === 0;
    next.hidden = false;
    next.textContent = at === steps.length - 1 ? "Done" : "Next";
  };
  const end = () => {
    mark(false);
    tour.hidden = true;
    // Gone once the server has noted it: only from then on does the next page not begin it again.
    htmx.ajax("POST", tour.dataset.url, { swap: "none", source: document.body }).finally(() => tour.remove());
  };
  tour.addEventListener("click", (event) => {
    const what = event.target.closest("[data-tour]")?.dataset.tour;
    if (!what) return;
    event.preventDefault();
    if (what === "end" || (what === "next" && at === steps.length - 1)) end();
    else go(at + (what === "next" ? 1 : -1));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && tour.isConnected && !tour.hidden && !document.querySelector("dialog[open]")) end();
  });
  go(0);
})();
