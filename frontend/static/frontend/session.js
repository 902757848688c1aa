// A session that has ended: the page stops asking, one bar says so, and what was typed stays until the user signs in again.
(() => {
  "use strict";
  const bar = document.getElementById("signed-out");
  if (!bar) return;
  const tabs = "BroadcastChannel" in window ? new BroadcastChannel("weft-session") : null;
  let ended = false;

  const end = () => {
    if (ended) return;
    ended = true;
    bar.hidden = false;
    document.dispatchEvent(new Event("weft:signed-out"));
  };
  // Signing in gives new CSRF tokens: those of the forms that are open are replaced.
  const renew = (token) => {
    for (const field of document.querySelectorAll("input[name=csrfmiddlewaretoken]")) field.value = token;
    document.body.setAttribute("hx-headers", JSON.stringify({ "X-CSRFToken": token }));
  };
  // Whether the session goes on, as far as one can know: a server that does not answer is not the session's end.
  const goesOn = async () => {
    let answer;
    try { answer = await fetch(bar.dataset.url, { headers: { "X-Weft-Live": "1" } }); } catch { return true; }
    if (answer.status === 401) { end(); return false; }
    if (!answer.ok) return true;
    const { user, csrf } = await answer.json();
    if (user !== bar.dataset.user) { location.reload(); return false; } // what stands here is another person's
    renew(csrf);
    if (ended) {
      ended = false;
      bar.hidden = true;
      document.dispatchEvent(new Event("weft:signed-in"));
    }
    return true;
  };

  document.addEventListener("weft:refused", goesOn); // a stream or a fetch was
  document.addEventListener("htmx:responseError", (event) => { if (event.detail.xhr.status === 401) end(); });
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!ended) return;
    event.preventDefault();
    if (["click", "submit"].includes(event.detail.requestConfig.triggeringEvent?.type)) bar.querySelector("a").focus();
  });

  // A form is sent only while the session goes on: the page to sign in would take its place.
  const asked = new WeakSet();
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if (asked.delete(form)) return; // it was asked for, and may go
    event.preventDefault();
    if (form.dataset.asking) return;
    form.dataset.asking = "1";
    const may = await goesOn();
    delete form.dataset.asking;
    if (may) { asked.add(form); form.requestSubmit(event.submitter); } else bar.querySelector("a").focus();
  });

  // Signed in again, mostly in another tab.
  const look = () => { if (ended && !document.hidden) goesOn(); };
  addEventListener("focus", look);
  document.addEventListener("visibilitychange", look);
  tabs?.addEventListener("message", () => { if (ended) goesOn(); });
  tabs?.postMessage("signed in");
})();
