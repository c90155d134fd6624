// The live tail: rows come in at the top, change where they stand, or leave; paused, they gather.
(() => {
  const MOST_SHOWN = 200;
  const LEAST_FULL = 50;
  const MOST_GATHERED = 500;
  const gathered = new Map();
  let paused = false;

  const rows = document.getElementById("rows");
  const state = document.getElementById("tail");
  const button = document.querySelector("[data-pause]");
  if (!rows || !state || !button) return;

  function rowOf(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.querySelector("tr");
  }

  const createdAt = (row) => row.lastElementChild.querySelector("time").dateTime;

  function place(row) {
    const there = document.getElementById(row.id);
    if (row.hasAttribute("data-left")) {
      there?.remove();
      return;
    }
    if (there) {
      const at = there.classList.contains("at");
      there.replaceWith(row);
      if (at) row.classList.add("at");
    } else {
      const later = [...rows.children].find((each) => createdAt(each) <= createdAt(row));
      // What is older than all that is shown belongs to a later page.
      if (!later && rows.children.length >= LEAST_FULL) return;
      rows.insertBefore(row, later || null);
      document.getElementById("log").classList.remove("hidden");
      document.getElementById("nothing")?.remove();
      document.getElementById("bulk")?.classList.remove("hidden");
    }
    row.classList.add("fresh");
    while (rows.children.length > MOST_SHOWN) rows.lastElementChild.remove();
  }

  function tell() {
    if (!paused) state.textContent = "live";
    else state.textContent = gathered.size ? `paused, ${gathered.size} new` : "paused";
  }

  document.body.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.target !== rows) return;
    event.preventDefault();
    const row = rowOf(event.detail.data);
    if (!row) return;
    if (paused) {
      gathered.delete(row.id);
      gathered.set(row.id, row);
      if (gathered.size > MOST_GATHERED) gathered.delete(gathered.keys().next().value);
    } else {
      place(row);
    }
    tell();
  });
  document.body.addEventListener("htmx:sseOpen", tell);
  document.body.addEventListener("htmx:sseError", () => { state.textContent = "not connected; trying again"; });

  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Go on" : "Pause";
    if (!paused) {
      gathered.forEach(place);
      gathered.clear();
    }
    tell();
  });
})();
