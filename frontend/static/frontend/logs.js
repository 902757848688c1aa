// Following a log: new lines are appended below, and the view stays at the end if it was there.
(() => {
  "use strict";
  const log = document.getElementById("log");
  if (!log) return;
  const follow = document.getElementById("follow"), search = document.getElementById("log-search");
  const PERIOD = 2000;
  const end = () => { log.scrollTop = log.scrollHeight; };
  const filter = () => {
    const wanted = search.value.toLowerCase();
    for (const line of log.querySelectorAll("li")) line.hidden = Boolean(wanted) && !line.textContent.toLowerCase().includes(wanted);
  };
  const more = async () => {
    if (!follow.checked || document.hidden) return;
    const list = log.querySelector("ol");
    if (!list) return;
    try {
      const answer = await fetch(`${log.dataset.url}?since=${encodeURIComponent(list.dataset.next)}`, { headers: { "X-Requested-With": "fetch" } });
      if (!answer.ok) return;
      const next = answer.headers.get("X-Next-Since");
      const lines = new DOMParser().parseFromString(await answer.text(), "text/html").querySelectorAll("li");
      if (!lines.length) return;
      list.append(...lines);
      list.dataset.next = next;
      while (list.children.length > 5000) list.firstElementChild.remove();
      filter();
      end();
    } catch { /* the next round asks again; the page's mark says that the server is away */ }
  };
  search.addEventListener("input", filter);
  end();
  setInterval(more, PERIOD);
})();
