/* What scripts add to a report that is complete without them: sort, filter, copy, zoom, theme, keys. */
(function () {
"use strict";
var gaptrace = window.gaptrace, all = gaptrace.all, make = gaptrace.make, button = gaptrace.button;
var timelines = [], quiet = false;

/* What a page carries as deflated JSON, as text; a browser that cannot read it shows the drawings. */
function unpacked(id) {
  var held = document.getElementById(id);
  if (!held || !window.DecompressionStream) { return Promise.reject(new Error("no " + id)); }
  var bytes = Uint8Array.from(atob(held.textContent), function (c) { return c.charCodeAt(0); });
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

function redrawAll() { timelines.forEach(function (t) { t.view.redraw(); }); }
function toggleTheme() {
  gaptrace.keepTheme(gaptrace.dark() ? "light" : "dark");
  redrawAll();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);

/* Tables. */
function whole(cell) {
  var full = cell.querySelector(".whole");
  return cell.hasAttribute("data-v") ? cell.getAttribute("data-v") : (full || cell).textContent.trim();
}
function wireTable(table) {
  var body = table.tBodies[0], rows = Array.from(body.rows), frame = table.closest(".frame");
  var heads = all("thead th", table);
  if (rows.length < 8) { return; }
  window.gaptraceSort(table);
  var tools = make("div", "tools"), box = make("input"), count = make("span", "soft");
  box.type = "search";
  box.placeholder = "filter";
  box.setAttribute("aria-label", "filter: " + frame.getAttribute("aria-label"));
  count.setAttribute("role", "status");
  box.addEventListener("input", function () {
    var want = box.value.trim().toLowerCase(), left = 0;
    rows.forEach(function (row) {
      var keep = row.textContent.toLowerCase().indexOf(want) >= 0;
      row.hidden = !keep;
      left += keep;
    });
    count.textContent = want ? left + " of " + rows.length : "";
  });
  tools.append(box, count, button("Copy CSV", "copy the rows shown as CSV", function () {
    var lines = [heads.map(function (th) { return th.firstChild ? th.textContent.trim() : ""; })];
    Array.from(body.rows).forEach(function (row) { if (!row.hidden) { lines.push(Array.from(row.cells, whole)); } });
    gaptrace.copy(gaptrace.csv(lines), count);
  }));
  frame.before(tools);
}

/* Timelines. */
function mount(place, found, looks) {
  var holder = make("div"), choice = make("div", "views"), listed = found.views.filter(function (v) { return v.listed; });
  choice.hidden = listed.length < 2;
  choice.setAttribute("role", "group");
  choice.setAttribute("aria-label", "which stretch to show");
  place.append(choice, holder);
  var own = {id: found.id, views: found.views, listed: listed, place: place, current: found.views[0], show: show};
  own.view = window.gaptraceTimeline(holder, own.current.data, {looks: looks, names: found.names, dark: gaptrace.dark});
  function show(next) {
    if (next !== own.current) { own.current = next; own.view.setData(next.data); }
    place.previousElementSibling.textContent = next.said;
    all("button", choice).forEach(function (b) { b.setAttribute("aria-pressed", String(b.dataset.view === next.id)); });
  }
  listed.forEach(function (v) {
    var b = button(v.data.title, "", function () { show(v); remember(); });
    b.dataset.view = v.id;
    choice.append(b);
  });
  timelines.push(own);
  show(own.current);
  place.closest(".timeline").classList.add("mounted");
  holder.addEventListener("gaptrace:view", function (event) {
    if (event.detail.by !== "user") { return; }
    later();
    var start = own.current.data.start_ns, from = event.detail.start_ns - start, to = event.detail.end_ns - start;
    timelines.forEach(function (t) {
      var first = t.current.data.start_ns, alike = place.dataset.brush && t.place.dataset.brush === place.dataset.brush;
      if (t !== own && alike) { t.view.setView(first + from, first + to); }
    });
  });
  holder.addEventListener("gaptrace:select", remember);
}
/* Shows a view where it is; says which timeline that is. */
function shown(viewId) {
  return timelines.find(function (t) {
    var next = t.views.find(function (v) { return v.id === viewId; });
    if (next) { reveal(t.place); t.show(next); t.place.scrollIntoView({block: "center"}); }
    return next;
  });
}
function jump(viewId, from, to) {
  var t = shown(viewId);
  if (!t) { return; }
  if (from) { t.view.selectRange(from, to); }
  t.view.focus();
}
document.addEventListener("click", function (event) {
  var link = event.target.closest("a[data-view]");
  if (link) {
    event.preventDefault();
    jump(link.dataset.view, +link.dataset.from, +link.dataset.to);
    return;
  }
  var bar = event.target.closest("[data-step]");
  if (bar) {
    var place = bar.closest(".tab,main").querySelector(".canvas[data-timeline]");
    if (place) { jump(place.dataset.timeline + "/step" + bar.dataset.step); }
  }
});

/* The address holds what is shown. */
var wait = 0;
function later() { clearTimeout(wait); wait = setTimeout(remember, 200); }
function remember() {
  if (quiet) { return; }
  var own = timelines.find(function (t) { return t.place.contains(document.activeElement); }) || timelines[0];
  if (own) { history.replaceState(null, "", "#v=" + encodeURIComponent(own.current.id) + "&t=" + own.view.view().map(Math.round).join("-")); }
}
function restore() {
  var held = /^#v=([^&]*)&t=(-?\d+)-(-?\d+)$/.exec(location.hash);
  if (held) {
    quiet = true;
    var t = shown(decodeURIComponent(held[1]));
    if (t) { t.view.setView(+held[2], +held[3]); }
    quiet = false;
  } else if (location.hash.length > 1) {
    var target = document.getElementById(location.hash.slice(1));
    if (target) { reveal(target); target.scrollIntoView(); }
  }
}
function reveal(target) {
  for (var at = target; at; at = at.parentElement) {
    if (at.tagName === "DETAILS") { at.open = true; }
    if (at.classList.contains("tab")) {
      var pick = document.getElementById("pick-" + at.id + "-");
      if (pick && !pick.checked) { pick.checked = true; redrawAll(); }
    }
  }
}

/* Keys. */
function visibleTimeline() { return timelines.find(function (t) { return t.place.offsetParent; }); }
function otherStep(by) {
  var t = visibleTimeline();
  if (!t) { return; }
  t.show(t.listed[(t.listed.indexOf(t.current) + by + t.listed.length) % t.listed.length]);
  t.place.scrollIntoView({block: "center"});
}
gaptrace.onKey(function (key) {
  var t = visibleTimeline();
  return {"?": gaptrace.help, t: toggleTheme, j: function () { gaptrace.finding(1); }, k: function () { gaptrace.finding(-1); },
    n: function () { otherStep(1); }, p: function () { otherStep(-1); },
    "/": t && function () { t.place.scrollIntoView({block: "center"}); t.view.focusSearch(); },
    "[": t && function () { t.view.press("["); }, "]": t && function () { t.view.press("]"); }, "0": t && t.view.fit}[key];
});

/* The buttons of the header. */
function download() {
  unpacked("result").then(function (text) {
    var url = URL.createObjectURL(new Blob([text + "\n"], {type: "application/json"})), link = make("a");
    link.href = url;
    link.download = "gaptrace.json";
    link.click();
    setTimeout(function () { URL.revokeObjectURL(url); }, 1000);
  });
}
function wireHeader() {
  var place = document.querySelector(".actions");
  place.append(button("Theme", "light or dark (t)", toggleTheme));
  if (document.getElementById("result")) { place.append(button("Download JSON", "the figures as data", download)); }
  place.append(button("Keys ?", "keyboard map (?)", gaptrace.help));
  document.getElementById("keys").append(button("Close", "", gaptrace.help));
}
var folded = [];
window.addEventListener("beforeprint", function () {
  folded = all("details:not([open])").filter(function (d) { return !d.classList.contains("full"); });
  folded.forEach(function (d) { d.open = true; });
});
window.addEventListener("afterprint", function () { folded.forEach(function (d) { d.open = false; }); });

wireHeader();
all("a.def").forEach(function (link) {
  var said = document.querySelector(link.hash + "+dd b");
  if (said) { link.title = said.textContent; }
});
all("table.data").forEach(wireTable);
all(".tabs>input").forEach(function (pick) { pick.addEventListener("change", redrawAll); });
window.addEventListener("hashchange", restore);
unpacked("timelines").then(function (text) {
  var held = JSON.parse(text);
  all(".canvas[data-timeline]").forEach(function (place) {
    var found = held.analyses.find(function (a) { return a.id === place.dataset.timeline; });
    if (found && found.views.length) { mount(place, found, held.looks); }
  });
}, function () { /* without data the drawings stay */ }).then(function () {
  restore();
  document.documentElement.dataset.ready = "yes";
});
})();
