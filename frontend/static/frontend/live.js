// Live parts: the stream says what changed, each part fetches itself again (hx-trigger="live-PART from:body").
// Without a stream the parts are asked for every few seconds, and the mark says so.
(() => {
  "use strict";
  const mark = document.getElementById("live");
  if (!mark) return;
  const PARTS = ["clock", "workloads", "usage"];
  const POLL = 5000, STALE = 8000;
  let last = Date.now(), poll = 0, source = null, clockAt = 0, clock = 0, speed = 0, paused = true;

  const say = (state, text) => { if (mark.dataset.state !== state || mark.textContent !== text) { mark.dataset.state = state; mark.textContent = text; } };
  const time = (at) => new Date(at).toTimeString().slice(0, 8);
  const tell = (part) => htmx.trigger(document.body, `live-${part}`);

  const lost = () => Date.now() - last > STALE ? say("stale", `last update ${time(last)}`) : say("waiting", "reconnecting");
  const open = () => {
    source = new EventSource(mark.dataset.url);
    source.onopen = () => { clearInterval(poll); poll = 0; last = Date.now(); say("live", "live"); };
    source.addEventListener("change", (event) => {
      const body = JSON.parse(event.data);
      last = Date.now();
      [clock, clockAt, speed, paused] = [body.now, last, body.speed, body.paused];
      document.dispatchEvent(new CustomEvent("weft:clock", { detail: { now: clock } }));
      if (!document.hidden) body.parts.forEach(tell);
    });
    source.onerror = () => {
      lost();
      if (source.readyState === EventSource.CLOSED) setTimeout(open, POLL);
      if (!poll) poll = setInterval(() => { if (!document.hidden) { PARTS.forEach(tell); } }, POLL);
    };
  };
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!poll) return;
    if (event.detail.successful) { last = Date.now(); say("polling", `every ${POLL / 1000} s`); }
    else lost();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) PARTS.forEach(tell); });
  addEventListener("pagehide", () => source && source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  open();
})();
