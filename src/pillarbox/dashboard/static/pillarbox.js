// What every page does: times that stay true, and a question before what cannot be undone.
(() => {
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];

  function span(seconds) {
    for (const [unit, length] of UNITS) {
      if (seconds >= length) return `${Math.round(seconds / length)} ${unit}`;
    }
    return `${Math.round(seconds)} s`;
  }

  function distance(at) {
    const seconds = Math.round((at - Date.now()) / 1000);
    if (seconds > 0) return `in ${span(seconds)}`;
    return seconds === 0 ? "now" : `${span(-seconds)} ago`;
  }

  function refresh() {
    for (const time of document.querySelectorAll("time[data-relative]")) {
      const said = distance(Date.parse(time.dateTime));
      if (time.textContent !== said) time.textContent = said;
    }
  }

  setInterval(refresh, 1000);

  // Where the pages stand in one line, as on a phone, the one that is shown must be in sight.
  const here = document.querySelector(".rail nav [aria-current]");
  if (here) {
    const line = here.closest("nav");
    const [place, room] = [here.getBoundingClientRect(), line.getBoundingClientRect()];
    line.scrollLeft += place.left + place.width / 2 - room.left - room.width / 2;
  }

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) {
      event.preventDefault();
      return;
    }
    // A second click must not send a form twice; one that came back by the browser's history can be sent again.
    const button = event.submitter;
    if (button && event.target.method === "post") setTimeout(() => { button.disabled = true; });
  });

  addEventListener("pageshow", (event) => {
    if (event.persisted) document.querySelectorAll("button:disabled").forEach((button) => { button.disabled = false; });
  });
})();
