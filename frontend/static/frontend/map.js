// The map's time: says where the slider is while it moves, and goes there when it rests. Without it, Show does.
(() => {
  "use strict";
  const slider = document.getElementById("at");
  if (!slider) return;
  const { form } = slider, said = form.querySelector("output"), KEY = "weft-map-time";
  const day = (at) => new Date(at * 1000).toLocaleDateString("en-US", { month: "short", day: "numeric", timeZone: "UTC" });
  const text = (at) => {
    if (at === Number(slider.max)) return "now";
    const time = new Date(at * 1000).toISOString();
    return day(at) === day(Number(slider.max)) ? time.slice(11, 19) : `${day(at)}, ${time.slice(11, 16)}`;
  };
  let due = 0;
  slider.addEventListener("input", () => {
    said.textContent = text(Number(slider.value));
    slider.setAttribute("aria-valuetext", said.textContent);
  });
  slider.addEventListener("change", () => {
    clearTimeout(due);
    due = setTimeout(() => { sessionStorage.setItem(KEY, "1"); form.requestSubmit(); }, 300); // keys come in rows
  });
  form.addEventListener("submit", () => { if (slider.value === slider.max) slider.disabled = true; });
  addEventListener("pageshow", () => { slider.disabled = false; });
  if (sessionStorage.getItem(KEY)) { sessionStorage.removeItem(KEY); slider.focus({ preventScroll: true }); }
})();
