"use strict";
// The pages work without this. It keeps them up to date, shows times in the reader's zone, and adds keys.

const main = () => document.getElementById("main");
const state = document.getElementById("state");
const calm = state.textContent;

// Times come in the zone of the config, with UTC as title.
const zoned = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dress = () => {
  for (const t of document.querySelectorAll("main time")) t.textContent = zoned.format(new Date(t.dateTime));
};
dress();

// The page is fetched again when what it shows has changed, but not while somebody selects or types in it.
const pace = 2000;
let stale = false, fetched = Date.now();
const busy = () => main().contains(document.activeElement) && document.activeElement.matches("input, select, textarea, button") ||
  main().querySelector("input:checked") || !getSelection().isCollapsed || document.hidden;
const renew = async () => {
  if (!stale || Date.now() - fetched < pace || busy()) return;
  stale = false;
  fetched = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { "X-Live": "1" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("main");
    if (!next || busy()) { stale = true; return; }
    const row = at();
    main().replaceWith(next);
    dress();
    if (row >= 0) go(row);
  } catch { stale = true; }
};
if (main().dataset.live) {
  const events = new EventSource("/events");
  events.onmessage = (e) => {
    const news = JSON.parse(e.data), shows = main().dataset.live;
    if (news.away) { state.textContent = news.away; state.classList.add("away"); }
    if (news.back) { state.textContent = calm; state.classList.remove("away"); stale = true; }
    if (shows === "*" ? news.changed.length : news.changed.includes(shows)) stale = true;
  };
  events.onerror = () => { state.textContent = "hipq ui has ended"; state.classList.add("away"); };
  events.onopen = () => { if (state.textContent === "hipq ui has ended") { state.textContent = calm; state.classList.remove("away"); stale = true; } };
  setInterval(renew, 250);
  setInterval(() => { stale = true; }, 30000); // what no activity tells, such as an older oldest job
}

// Keys.
const rows = () => [...main().querySelectorAll("[data-rows] tbody tr")];
const at = () => rows().findIndex((r) => r.classList.contains("at"));
const go = (n) => {
  const all = rows();
  if (!all.length) return;
  const i = Math.max(0, Math.min(all.length - 1, n));
  all.forEach((r, k) => r.classList.toggle("at", k === i));
  all[i].scrollIntoView({ block: "nearest" });
};
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select, textarea")) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  const row = rows()[at()];
  switch (e.key) {
    case "/": main().querySelector("[data-search]")?.focus(); break;
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
  for (const box of main().querySelectorAll("input[name=id]")) box.checked = e.target.checked;
});
