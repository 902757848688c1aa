// Following a log: new lines are appended below, and the view stays at the end if it was there.
(() => {
  "use strict";
  const log = document.getElementById("log");
  if (!log) return;
  const follow = document.getElementById("follow"), search = document.getElementById("log-search");
  const found = document.getElementById("log-found"), state = document.getElementById("log-state");
  const PERIOD = 2000;
  const end = () => { log.scrollTop = log.scrollHeight; };
  const filter = () => {
    const wanted = search.value.toLowerCase();
    let count = 0;
    for (const line of log.querySelectorAll("li")) {
      line.hidden = Boolean(wanted) && !line.textContent.toLowerCase().includes(wanted);
      count += !line.hidden;
    }
    const text = wanted ? `${count} of ${log.querySelectorAll("li").length} lines` : "";
    if (found && found.textContent !== text) found.textContent = text;
  };
  const tell = (text) => { if (state && state.textContent !== text) state.textContent = text; };
  let ended = false;
  document.addEventListener("weft:signed-out", () => { ended = true; });
  document.addEventListener("weft:signed-in", () => { ended = false; });
  const more = async () => {
    if (ended || !follow.checked || document.hidden) return;
    const list = log.querySelector("ol");
    if (!list) return;
    try {
      const answer = await fetch(`${log.dataset.url}?since=${encodeURIComponent(list.dataset.next)}`, { headers: { "X-Requested-With": "fetch", "X-Weft-Live": "1" } });
      if (answer.status === 401) { document.dispatchEvent(new Event("weft:refused")); return; }
      if (!answer.ok) { tell("The cluster does not answer; asking again."); return; }
      tell("");
      const next = answer.headers.get("X-Next-Since");
      const lines = new DOMParser().parseFromString(await answer.text(), "text/html").querySelectorAll("li");
      if (!lines.length) return;
      const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      list.append(...lines);
      list.dataset.next = next;
      while (list.children.length > 5000) list.firstElementChild.remove();
      filter();
      if (atEnd) end();
    } catch { tell("Weft does not answer; asking again."); }
  };
  search.addEventListener("input", filter);
  end();
  setInterval(more, PERIOD);
})();
