// Keys: / filters, j and k move, Enter opens, g goes, ? tells.
(() => {
  const PLACES = { o: "/", m: "/messages", s: "/sessions", h: "/hooks", i: "/inbox", t: "/tenants", b: "/sandbox", a: "/audit" };
  let going = false;

  const help = () => document.getElementById("keys");

  function move(step) {
    const rows = [...document.querySelectorAll("[data-row]")];
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.classList.contains("at"));
    const next = Math.min(rows.length - 1, Math.max(0, at + step));
    if (at >= 0) rows[at].classList.remove("at");
    rows[next].classList.add("at");
    const link = rows[next].querySelector("a");
    if (link) link.focus({ preventScroll: true });
    rows[next].scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-keys]")) help().showModal();
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest("input, textarea, select");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    if (going) {
      going = false;
      if (PLACES[event.key]) location.assign(PLACES[event.key]);
      return;
    }
    if (event.key === "/") {
      const filter = document.getElementById("filter");
      if (filter) { event.preventDefault(); filter.focus(); filter.select(); } else { location.assign("/messages"); }
    } else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "g") { going = true; setTimeout(() => { going = false; }, 1500); }
    else if (event.key === "p") document.querySelector("[data-pause]")?.click();
    else if (event.key === "?") help()?.showModal();
  });
})();
