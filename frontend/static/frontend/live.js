// Live parts: the stream says what changed, each part fetches itself again (hx-trigger="live-PART from:body").
// Without a stream the parts are asked for every few seconds, and the mark says so.
(() => {
  "use strict";
  const mark = document.getElementById("live");
  if (!mark) return;
  const PARTS = ["clock", "workloads", "usage", "notices"];
  const POLL = 5000, STALE = 8000;
  const GRACE = 5000; // beside two beats: as long a stream may be silent before it counts as lost
  let ended = false, last = Date.now(), heard = Date.now(), silence = 30000, poll = 0, source = null, clockAt = 0, clock = 0, speed = 0, paused = true;

  const say = (state, text) => { if (mark.dataset.state !== state || mark.textContent !== text) { mark.dataset.state = state; mark.textContent = text; } };
  const time = (at) => new Date(at).toTimeString().slice(0, 8);
  const tell = (part) => htmx.trigger(document.body, `live-${part}`);

  const notice = document.getElementById("stale");
  const fresh = () => { if (notice) notice.hidden = true; };
  const lost = () => {
    if (ended) return;
    if (Date.now() - last <= STALE) { say("waiting", "reconnecting"); return; }
    say("stale", `last update ${time(last)}`);
    if (!notice || !notice.hidden) return;
    notice.textContent = `Weft has not answered since ${time(last)}. The page shows the state of that time; it continues by itself when Weft answers.`;
    notice.hidden = false;
  };
  const open = () => {
    if (ended) return;
    source?.close();
    heard = Date.now();
    source = new EventSource(mark.dataset.url);
    source.onopen = () => { heard = Date.now(); clearInterval(poll); poll = 0; last = Date.now(); fresh(); say("live", "live"); };
    source.addEventListener("change", (event) => {
      const body = JSON.parse(event.data);
      last = heard = Date.now();
      [clock, clockAt, speed, paused] = [body.now, last, body.speed, body.paused];
      document.dispatchEvent(new CustomEvent("weft:clock", { detail: { now: clock } }));
      if (!document.hidden) body.parts.forEach(tell);
    });
    source.addEventListener("beat", (event) => { last = heard = Date.now(); silence = 2000 * Number(event.data) + GRACE; });
    source.onerror = () => {
      heard = Date.now(); // that was said, too
      lost();
      if (source.readyState === EventSource.CLOSED) { document.dispatchEvent(new Event("weft:refused")); setTimeout(open, POLL); }
      if (!poll) poll = setInterval(() => { if (!document.hidden) { PARTS.forEach(tell); } }, POLL);
    };
  };
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!poll || ended) return;
    if (event.detail.successful) { last = Date.now(); fresh(); say("polling", `every ${POLL / 1000} s`); }
    else lost();
  });
  // A server that hangs, or a line that is cut without a word, is no error to an EventSource.
  setInterval(() => { if (source && !ended && Date.now() - heard > silence) { source.close(); lost(); open(); } }, 1000);
  // What a page fetches by itself is marked, so that an open page does not keep its session alive.
  document.addEventListener("htmx:configRequest", (event) => {
    const cause = event.detail.triggeringEvent;
    if (cause && cause.type.startsWith("live-")) event.detail.headers["X-Weft-Live"] = "1";
  });
  // Nothing is requested while no user is signed in (session.js).
  document.addEventListener("weft:signed-out", () => {
    ended = true;
    source?.close();
    clearInterval(poll);
    poll = 0;
    fresh();
    say("stale", "signed out");
  });
  document.addEventListener("weft:signed-in", () => { ended = false; open(); PARTS.forEach(tell); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !ended) PARTS.forEach(tell); });
  addEventListener("pagehide", () => source && source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  open();
})();
