/* What every page of the dashboard shares: address, theme, fragments, tables, keys.

   The address holds the state. `gaptrace.go(url)` opens a page, `gaptrace.put(changes, how)` writes
   parameters: "replace" for what changes while one looks (zoom, selection), "push" for what one
   wants to go back from (a step), "page" for what the server has to know of (a tab). */
(function () {
"use strict";
var gaptrace = window.gaptrace, all = gaptrace.all;
gaptrace.pages = [];

/* Address. */
gaptrace.params = function () { return new URLSearchParams(location.search); };
gaptrace.get = function (name) { return gaptrace.params().get(name); };
function tellDash() { window.dispatchEvent(new CustomEvent("_dashprivate_pushstate")); }
gaptrace.put = function (changes, how) {
  var query = gaptrace.params();
  Object.keys(changes).forEach(function (name) {
    query.delete(name);
    [].concat(changes[name] === null ? [] : changes[name]).forEach(function (v) { query.append(name, v); });
  });
  var text = query.toString(), url = location.pathname + (text ? "?" + text : "") + location.hash;
  if (url === location.pathname + location.search + location.hash) { return; }
  history[how === "replace" ? "replaceState" : "pushState"](null, "", url);
  if (how === "page") { tellDash(); }
};
/* One parameter that changes while one looks; an empty one is left out. */
gaptrace.note = function (name, value) {
  var change = {};
  change[name] = value || null;
  gaptrace.put(change, "replace");
};
gaptrace.go = function (url) {
  var next = new URL(url, location.href), theme = gaptrace.get("theme");
  if (theme && !next.searchParams.has("theme")) { next.searchParams.set("theme", theme); }
  if (next.href === location.href) { return; }
  history.pushState(null, "", next.pathname + next.search + next.hash);
  tellDash();
  if (next.hash) { reveal(next.hash.slice(1)); return; }
  window.scrollTo(0, 0);
  var main = document.getElementById("page");
  if (main) { main.focus({preventScroll: true}); }
};
function reveal(id) {
  var tries = 0;
  (function look() {
    var found = document.getElementById(id);
    if (found) { found.scrollIntoView(); found.focus({preventScroll: true}); } else if (tries++ < 40) { setTimeout(look, 50); }
  })();
}
document.addEventListener("click", function (event) {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) { return; }
  var link = event.target.closest("a[href]");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) { return; }
  if (link.getAttribute("href").charAt(0) === "#") {
    var id = link.getAttribute("href").slice(1);
    event.preventDefault();
    if (document.getElementById(id)) { history.pushState(null, "", location.pathname + location.search + "#" + id); reveal(id); }
    return;
  }
  event.preventDefault();
  gaptrace.go(link.href);
});
window.addEventListener("popstate", function () {
  restoreTheme(gaptrace.get("theme") || stored());
  gaptrace.pages.forEach(function (page) { if (page.restore) { page.restore(); } });
  all("table.data").forEach(function (table) { if (table.gaptraceRestore) { table.gaptraceRestore(); } });
  if (location.hash) { reveal(location.hash.slice(1)); }
});

/* Theme: the address, else the stored choice, else the system's. */
function stored() { try { return localStorage.getItem("gaptrace-theme"); } catch (refused) { return null; } }
function redrawAll() { gaptrace.pages.forEach(function (page) { if (page.redraw) { page.redraw(); } }); }
function restoreTheme(name) {
  var root = document.documentElement;
  if (name === "light" || name === "dark") { root.dataset.theme = name; } else { delete root.dataset.theme; }
  redrawAll();
}
function toggleTheme() {
  var name = gaptrace.dark() ? "light" : "dark";
  gaptrace.keepTheme(name);
  gaptrace.note("theme", name);
  redrawAll();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);

/* Fragments: markup that the server made and escaped, put in where its component stands. */
function fill() {
  all("[data-html]").forEach(function (place) {
    var text = place.getAttribute("data-html");
    if (place.gaptraceText === text) { return; }
    place.gaptraceText = text;
    gaptrace.put_html(place, text);
  });
  gaptrace.pages.forEach(function (page) { page.appeared(); });
  var said = document.querySelector("#page .who b"), head = document.querySelector("#page h1");
  var title = head ? (location.pathname === "/run" && said ? said.textContent : head.textContent).slice(0, 90) + " · gaptrace" : "gaptrace";
  // The title is watched too: writing it always would never end.
  if (document.title !== title) { document.title = title; }
  all("[data-page]").forEach(function (link) {
    if (link.dataset.page === location.pathname) { link.setAttribute("aria-current", "page"); } else { link.removeAttribute("aria-current"); }
  });
}
var waiting = false;
new MutationObserver(function () {
  if (!waiting) { waiting = true; queueMicrotask(function () { waiting = false; fill(); }); }
}).observe(document.documentElement, {childList: true, subtree: true, attributes: true, attributeFilter: ["data-html", "data-run", "data-timelines"]});
gaptrace.put_html = function (place, text) {
  place.innerHTML = text;
  all("table.data", place).forEach(wireTable);
};

/* Tables of a report: sort by a column; the address holds it as `by-TABLE=-COLUMN`, counted from 1. */
function wireTable(table) {
  if (table.tBodies[0].rows.length < 8) { return; }
  var name = "by-" + (table.caption ? table.caption.textContent : "table").toLowerCase().replace(/[^a-z0-9]+/g, "-");
  var order = window.gaptraceSort(table, function (column, up) {
    gaptrace.note(name, (up ? "" : "-") + (column + 1));
  });
  table.gaptraceRestore = function () {
    var found = /^(-?)(\d+)$/.exec(gaptrace.get(name) || ""), column = found ? found[2] - 1 : -1;
    if (column >= table.rows[0].cells.length) { column = -1; }
    if (column >= 0 || table.querySelector("th[aria-sort]")) { order(column, column < 0 || !found[1]); }
  };
  table.gaptraceRestore();
}

/* Keys: the page that is shown answers first, then what all pages have. */
document.addEventListener("click", function (event) {
  var id = event.target.id;
  if (id === "theme") { toggleTheme(); }
  if (id === "keys-button" || id === "keys-close") { gaptrace.help(); }
});
gaptrace.onKey(function (key) {
  var page = gaptrace.pages.find(function (p) { return p.here() && p.keys[key]; });
  return page ? page.keys[key] : {"?": gaptrace.help, t: toggleTheme, r: function () { gaptrace.go("/"); }}[key];
});
})();
