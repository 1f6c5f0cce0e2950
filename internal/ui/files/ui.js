"use strict";
// The pages work without this. It keeps them up to date, and adds keys, copying, and colours to choose.

const root = document.documentElement, base = new URL("..", document.currentScript.src).pathname;
const page = () => document.getElementById("page"), by = (id) => document.getElementById(id);
const all = (selector) => [...page().querySelectorAll(selector)];
root.classList.add("js");

// The colours are the system's, or those that somebody chose.
const darks = [...document.styleSheets].flatMap((s) => [...s.cssRules]).filter((r) => r.media?.mediaText.includes("dark")).map((r) => [r, r.media.mediaText]);
const themes = ["auto", "light", "dark"];
const colour = () => {
  const theme = localStorage.theme || "auto";
  for (const [rule, system] of darks) rule.media.mediaText = { dark: "all", light: "not all" }[theme] || system;
  root.style.colorScheme = theme === "auto" ? "" : theme;
  if (by("theme")) by("theme").textContent = "Colours: " + theme;
};
colour();

// Relative times go on, by the server's clock.
let ahead = 0;
const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const since = (at) => {
  const s = Math.round((Date.now() + ahead - at) / 1000), [size, unit] = units.find(([u]) => Math.abs(s) >= u) || units[3];
  return !s ? "now" : (s < 0 ? "in " : "") + Math.trunc(Math.abs(s) / size) + " " + unit + (s > 0 ? " ago" : "");
};
const tick = () => {
  for (const t of document.querySelectorAll("time.rel")) if (!isSelected(t)) t.textContent = since(Date.parse(t.dateTime));
};
const isSelected = (node) => !getSelection().isCollapsed && getSelection().containsNode(node, true);

// patch makes an element like another one. What somebody typed, chose, opened, selected, focused or scrolled stays.
const own = new Set(["data-at", "open", "disabled"]);
const idOf = (node) => node.getAttribute?.("id") || ""; // form.id may be a field of that name
const like = (a, b) => a && a.nodeName === b.nodeName && idOf(a) === idOf(b);
const patch = (old, next) => {
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && !own.has(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value && !own.has(name)) old.setAttribute(name, value);
  if (old.matches("[data-rows]")) hold(old, next);
  const news = [...next.childNodes], ids = new Set(news.map(idOf)), known = new Map([...old.children].filter(idOf).map((c) => [idOf(c), c]));
  let at = old.firstChild;
  for (const n of news) {
    const same = idOf(n) ? known.get(idOf(n)) : like(at, n) ? at : null;
    while (same && at && at !== same && !(idOf(at) && ids.has(idOf(at)))) at = drop(at);
    if (!same && n.matches?.("li.row")) n.classList.add("fresh");
    if (!same) old.insertBefore(n, at);
    else if (same !== at) old.insertBefore(same, at);
    else at = at.nextSibling;
    if (!same) continue;
    if (same.nodeType !== 1) { if (same.data !== n.data && !isSelected(same)) same.data = n.data; } else if (!same.matches("input:not([type=hidden]), select, textarea")) patch(same, n);
  }
  while (at) at = drop(at);
};
const drop = (node) => { const next = node.nextSibling; node.remove(); return next; };

// hold keeps the rows of a list where they are while somebody reads or chooses among them, and says how many are new.
let release = false, moved = 0;
addEventListener("pointermove", () => { moved = Date.now(); });
const isRead = (list) => !release && (pressed || list.querySelector("input:checked, [data-at], :focus") || list.getBoundingClientRect().top < 0 || list.matches(":hover") && Date.now() - moved < 4000);
const hold = (list, next) => {
  const coming = new Map([...next.children].map((r) => [r.id, r])), shown = [...list.children].filter((r) => r.id);
  const fresh = [...coming.keys()].filter((id) => !by(id)).length, gone = shown.filter((r) => !coming.has(r.id)).length, held = (fresh || gone) && isRead(list);
  by("news").hidden = !held;
  by("news").textContent = (fresh ? `${fresh} new` : `${gone} gone`) + " · show";
  if (!held) return;
  next.replaceChildren(...shown.map((r) => { const n = coming.get(r.id) || r.cloneNode(true); n.classList.toggle("gone", !coming.has(r.id)); return n; }));
};

// The page is fetched again when what it shows has changed.
const seldom = 30000;
let paused = false, stale = false, fetched = Date.now(), pressed = false, state, calm;
addEventListener("pointerdown", () => { pressed = true; });
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { pressed = false; });
const renew = async (now) => {
  const age = Date.now() - fetched;
  if (age > (page().dataset.every || seldom)) stale = true; // what no activity tells, such as progress
  if (!now && (!stale || paused || age < page().dataset.pace || pressed || document.hidden)) return;
  stale = false;
  fetched = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { "X-Live": "1" } });
    const text = await answer.text();
    if (answer.status === 503) return; // the page stays until the database is back
    const whole = new DOMParser().parseFromString(text, "text/html"), next = whole.getElementById("page");
    if (!next) { stale = true; return; }
    release = !!now;
    patch(page(), next);
    document.title = whole.title;
    dress();
  } catch { stale = true; }
};
const live = () => {
  if (!page().dataset.live) return;
  const gone = "hipq ui has ended";
  const say = (away) => { state.textContent = away || calm; state.classList.toggle("away", !!away); };
  let events;
  const listen = () => {
    events?.close(); // a hidden tab doesn't listen: browsers open six connections to a host
    if (document.hidden) return;
    events = new EventSource(base + "events?seen=" + page().dataset.seen);
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
  const button = by("pause"), show = () => { button.textContent = paused ? "Resume updates" : "Pause updates"; root.classList.toggle("paused", paused); };
  if (!button) return; // on the wall
  button.hidden = false;
  button.addEventListener("click", () => { paused = !paused; show(); if (!paused) renew(true); });
  show();
};

// Chosen rows: their number, ranges with Shift, and all that match.
const boxes = () => all("input[name=id]");
const dress = () => {
  ahead = page().dataset.now - Date.now();
  tick();
  const bar = page().querySelector(".chooser");
  if (!bar) return;
  const match = bar.querySelector("[name=all]")?.checked, n = boxes().filter((b) => b.checked).length;
  bar.querySelector("output").textContent = match ? `All ${bar.dataset.all} selected` : `${n.toLocaleString("en")} selected`;
  for (const b of bar.querySelectorAll("button")) b.disabled = !match && !n;
};
let last;
addEventListener("click", (e) => {
  if (e.target.matches?.("input[name=id]")) {
    const list = boxes(), from = list.findIndex((b) => b.id === last), to = list.indexOf(e.target);
    if (e.shiftKey && from >= 0) for (const b of list.slice(Math.min(from, to), Math.max(from, to) + 1)) b.checked = e.target.checked;
    last = e.target.id;
    const match = page().querySelector(".chooser [name=all]");
    if (match && !e.target.checked) match.checked = false;
    dress();
  } else if (e.target.matches?.("[data-page], .chooser [name=all]")) {
    for (const b of boxes()) b.checked = e.target.checked;
    dress();
  }
});

// Copying, the colours, and stopping a search.
const copy = async (button) => {
  const text = button.dataset.copy ? await (await fetch(button.dataset.copy)).text() : button.parentElement.querySelector("pre, code").innerText;
  try { await navigator.clipboard.writeText(text); } catch { // which needs https, or this host
    const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
};
addEventListener("click", (e) => {
  if (e.target.matches?.(".copy")) copy(e.target);
  if (e.target.id === "theme") { localStorage.theme = themes[(themes.indexOf(localStorage.theme || "auto") + 1) % 3]; colour(); }
  if (e.target.id === "stop") { stop(); root.classList.add("stopped"); }
  if (e.target.id === "news") { renew(true); scrollTo({ top: 0 }); }
});

// The values of a chart are shown where the pointer is.
addEventListener("pointerover", (e) => {
  const slot = e.target.closest?.(".slots g, .span g"), tip = by("tip");
  if (!tip) return;
  tip.hidden = !slot;
  if (!slot) return;
  tip.textContent = slot.querySelector("title").textContent;
  const at = slot.getBoundingClientRect(), over = slot.ownerSVGElement.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(at.left, root.clientWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(8, over.top - tip.offsetHeight - 4) + "px";
});

// A double click sends a form once.
let sent = -Infinity;
addEventListener("submit", (e) => {
  if (e.timeStamp - sent < 1000) e.preventDefault();
  else sent = e.timeStamp;
});

// Keys.
const rows = () => all("[data-rows] > li, [data-rows] tbody tr");
const at = () => rows().findIndex((r) => r.hasAttribute("data-at"));
const go = (n) => {
  const list = rows();
  if (!list.length) return;
  const i = Math.max(0, Math.min(list.length - 1, n));
  list.forEach((r, k) => r.toggleAttribute("data-at", k === i));
  list[i].scrollIntoView({ block: "nearest" });
};
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input:not([type=checkbox]), select, textarea")) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  const row = rows()[at()];
  switch (e.key) {
    case "/": document.querySelector("[data-search]")?.focus(); break;
    case "j": go(at() + 1); break;
    case "k": go(at() - 1); break;
    case "x": row?.querySelector("input[type=checkbox]")?.click(); break;
    case "g": location.href = base; break;
    case "?": by("keys").showModal(); break;
    case "Enter": if (row && e.target === document.body) row.querySelector("a")?.click(); return;
    default: return;
  }
  e.preventDefault();
});
addEventListener("DOMContentLoaded", () => {
  state = by("state");
  calm = state.textContent;
  colour();
  if (!page()) return;
  dress();
  live();
  setInterval(tick, 5000);
});
