"use strict";
// The pages work without this. It keeps them up to date, shows times in the reader's zone, and adds keys.

const page = () => document.getElementById("page");
const state = document.getElementById("state");
const calm = state.textContent;

// Times come in the zone of the config, with UTC as title.
const parts = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const zoned = new Intl.DateTimeFormat(undefined, parts), dated = new Intl.DateTimeFormat(undefined, { ...parts, year: "numeric" });
const dress = () => {
  for (const t of page().querySelectorAll("time")) {
    const at = new Date(t.dateTime);
    t.textContent = (at.getFullYear() === new Date().getFullYear() ? zoned : dated).format(at);
  }
};
document.getElementById("zone").textContent = zoned.resolvedOptions().timeZone;
dress();

// The page is fetched again when what it shows has changed, but not while somebody selects or types in it.
const seldom = 30000;
let stale = false, fetched = Date.now(), pressed = false;
addEventListener("pointerdown", () => { pressed = true; });
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { pressed = false; });
const busy = () => pressed || page().contains(document.activeElement) && document.activeElement.matches("input, select, textarea, button") ||
  page().querySelector("input:checked") || !getSelection().isCollapsed || document.hidden;
const renew = async () => {
  const age = Date.now() - fetched;
  if (age > (page().dataset.every || seldom)) stale = true; // what no activity tells, such as progress
  if (!stale || age < page().dataset.pace || busy()) return;
  stale = false;
  fetched = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { "X-Live": "1" } });
    const text = await answer.text();
    if (answer.status === 503) return; // the page stays until the database is back
    const whole = new DOMParser().parseFromString(text, "text/html"), next = whole.getElementById("page");
    if (!next || busy()) { stale = true; return; }
    const row = at(), link = page().contains(document.activeElement) && document.activeElement.getAttribute("href");
    page().replaceWith(next);
    document.title = whole.title;
    dress();
    if (row >= 0) go(row, "none");
    if (link) page().querySelector(`a[href="${CSS.escape(link)}"]`)?.focus({ preventScroll: true });
  } catch { stale = true; }
};
if (page().dataset.live) {
  const gone = "hipq ui has ended";
  const say = (away) => { state.textContent = away || calm; state.classList.toggle("away", !!away); };
  let events;
  const listen = () => {
    events?.close(); // a hidden tab doesn't listen: browsers open six connections to a host
    if (document.hidden) return;
    events = new EventSource("/events?seen=" + page().dataset.seen);
    events.onmessage = (e) => {
      const news = JSON.parse(e.data), shows = page().dataset.live, changed = (what) => news.changed.includes(what);
      if (news.away) say(news.away);
      if (news.back) { say(""); stale = true; }
      if (shows === "*" ? news.changed.length : changed(shows) || changed("*")) stale = true;
    };
    events.onerror = () => say(events.readyState === EventSource.CLOSED ? "hipq ui was started again, or can't be reached: load the page again, or open the address that it printed" : gone); // closed: it doesn't try again
    events.onopen = () => { if (state.textContent === gone) { say(""); stale = true; } };
  };
  listen();
  document.addEventListener("visibilitychange", () => { say(""); stale = true; listen(); });
  setInterval(renew, 250);
}

// A double click sends a form once.
let sent = -Infinity;
document.addEventListener("submit", (e) => {
  if (e.timeStamp - sent < 1000) e.preventDefault();
  else sent = e.timeStamp;
});

// Keys.
const rows = () => [...page().querySelectorAll("[data-rows] tbody tr")];
const at = () => rows().findIndex((r) => r.classList.contains("at"));
const go = (n, scroll) => {
  const all = rows();
  if (!all.length) return;
  const i = Math.max(0, Math.min(all.length - 1, n));
  all.forEach((r, k) => r.classList.toggle("at", k === i));
  if (!scroll) all[i].scrollIntoView({ block: "nearest" });
};
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select, textarea")) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  const row = rows()[at()];
  switch (e.key) {
    case "/": page().querySelector("[data-search]")?.focus(); break;
    case "j": go(at() + 1); break;
    case "k": go(at() - 1); break;
    case "x": row?.querySelector("input[type=checkbox]")?.click(); break;
    case "g": location.href = "/"; break;
    case "?": document.getElementById("keys").showModal(); break;
    case "Enter": if (row && e.target === document.body) row.querySelector("a")?.click(); return;
    default: return;
  }
  e.preventDefault();
});
document.addEventListener("change", (e) => {
  if (!e.target.matches("[data-all]")) return;
  for (const box of page().querySelectorAll("input[name=id]")) box.checked = e.target.checked;
});
