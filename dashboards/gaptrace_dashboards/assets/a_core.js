/* What every page of the dashboard shares: address, theme, fragments, tables, keys.

   The address holds the state. `gaptrace.go(url)` opens a page, `gaptrace.put(changes, how)` writes
   parameters: "replace" for what changes while one looks (zoom, selection), "push" for what one
   wants to go back from (a step), "page" for what the server has to know of (a tab). */
(function () {
"use strict";
var root = document.documentElement;
var gaptrace = window.gaptrace = {pages: [], all: all, make: make};

function all(selector, within) { return Array.prototype.slice.call((within || document).querySelectorAll(selector)); }
function make(tag, css, text) {
  var e = document.createElement(tag);
  if (css) { e.className = css; }
  if (text !== undefined) { e.textContent = text; }
  return e;
}

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
  setTheme(gaptrace.get("theme") || stored(), true);
  gaptrace.pages.forEach(function (page) { if (page.restore) { page.restore(); } });
  all("table.data").forEach(function (table) { if (table.gaptraceRestore) { table.gaptraceRestore(); } });
  if (location.hash) { reveal(location.hash.slice(1)); }
});

/* Theme: the address, else the stored choice, else the system's. */
function stored() { try { return localStorage.getItem("gaptrace-theme"); } catch (refused) { return null; } }
gaptrace.dark = function () {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
function setTheme(name, quiet) {
  if (name === "light" || name === "dark") { root.dataset.theme = name; } else { delete root.dataset.theme; }
  if (!quiet) {
    try { localStorage.setItem("gaptrace-theme", name); } catch (refused) { /* not kept */ }
    gaptrace.put({theme: name}, "replace");
  }
  gaptrace.pages.forEach(function (page) { if (page.redraw) { page.redraw(); } });
}
gaptrace.toggleTheme = function () { setTheme(gaptrace.dark() ? "light" : "dark"); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
  gaptrace.pages.forEach(function (page) { if (page.redraw) { page.redraw(); } });
});

/* Fragments: markup that the server made and escaped, put in where its component stands. */
function fill() {
  all("[data-html]").forEach(function (place) {
    var text = place.getAttribute("data-html");
    if (place.gaptraceText === text) { return; }
    place.gaptraceText = text;
    place.innerHTML = text;
    all("table.data", place).forEach(wireTable);
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
    var change = {};
    change[name] = (up ? "" : "-") + (column + 1);
    gaptrace.put(change, "replace");
  });
  table.gaptraceRestore = function () {
    var found = /^(-?)(\d+)$/.exec(gaptrace.get(name) || ""), column = found ? found[2] - 1 : -1;
    if (column >= table.rows[0].cells.length) { column = -1; }
    if (column >= 0 || table.querySelector("th[aria-sort]")) { order(column, column < 0 || !found[1]); }
  };
  table.gaptraceRestore();
}
gaptrace.copy = function (text, button) {
  var word = button.textContent;
  function done(ok) { button.textContent = ok ? "copied" : "not copied"; setTimeout(function () { button.textContent = word; }, 1500); }
  navigator.clipboard.writeText(text).then(function () { done(true); }, function () { done(false); });
};

/* Keys: the page that is shown answers first, then what all pages have. */
function help(open) {
  var dialog = document.getElementById("keys");
  if (!dialog) { return; }
  if (open === undefined ? !dialog.open : open) { dialog.showModal(); } else { dialog.close(); }
}
document.addEventListener("click", function (event) {
  var id = event.target.id;
  if (id === "theme") { gaptrace.toggleTheme(); }
  if (id === "keys-button") { help(true); }
  if (id === "keys-close") { help(false); }
});
document.addEventListener("keydown", function (event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) { return; }
  var own = {"?": function () { help(); }, t: gaptrace.toggleTheme, r: function () { gaptrace.go("/"); }};
  var act = null;
  gaptrace.pages.some(function (page) { act = page.here() && page.keys[event.key]; return act; });
  act = act || own[event.key];
  if (act && act(event) !== false) { event.preventDefault(); }
});
})();
