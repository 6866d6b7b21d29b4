/* The compare page: both timelines under one brush, and the key that swaps the sides. */
(function () {
"use strict";
var gaptrace = window.gaptrace, all = gaptrace.all, known = null, views = [];

function appeared() {
  var place = document.getElementById("compared");
  if (!place) { drop(); known = null; return; }
  if (known === place.dataset.timelines && views.length && document.contains(views[0].place)) { return; }
  if (!place.dataset.timelines || !all(".canvas[data-timeline]", place).length) { return; }
  if (known === place.dataset.timelines && appeared.busy) { return; }
  drop();
  known = place.dataset.timelines;
  appeared.busy = true;
  var mine = known;
  fetch(mine).then(function (a) { return a.ok ? a.json() : []; }).then(function (found) {
    appeared.busy = false;
    if (known !== mine) { return; }
    found.forEach(mount);
    restore();
  }, function () { appeared.busy = false; });
}
function drop() { views.forEach(function (v) { v.view.destroy(); }); views = []; }
function mount(item) {
  var place = all(".canvas[data-timeline]").filter(function (p) { return p.dataset.timeline === item.id; })[0];
  if (!place) { return; }
  var first = item, holder = gaptrace.make("div");
  place.replaceChildren(holder);
  place.closest(".timeline").classList.add("mounted");
  var one = {place: place, data: first.data, view: window.gaptraceTimeline(holder, first.data, {looks: gaptrace.looks(), names: first.data.names, dark: gaptrace.dark})};
  holder.addEventListener("gaptrace:view", function (event) {
    if (event.detail.by !== "user") { return; }
    var from = event.detail.start_ns - first.data.start_ns, to = event.detail.end_ns - first.data.start_ns;
    views.forEach(function (v) { if (v !== one) { v.view.setView(v.data.start_ns + from, v.data.start_ns + to); } });
    clearTimeout(one.wait);
    one.wait = setTimeout(function () { gaptrace.put({t: Math.round(from) + "-" + Math.round(to)}, "replace"); }, 220);
  });
  views.push(one);
  place.dataset.ready = "yes";
}
function restore() {
  var m = /^(-?\d+)-(-?\d+)$/.exec(gaptrace.get("t") || "");
  views.forEach(function (v) {
    if (m) { v.view.setView(v.data.start_ns + +m[1], v.data.start_ns + +m[2]); }
    else { v.view.setView(v.data.start_ns, v.data.start_ns + v.data.span_ns); }
  });
}
function focused() { return views.filter(function (v) { return v.place.contains(document.activeElement); })[0] || views[0]; }
var keys = {c: function () { var swap = document.getElementById("swap"); if (swap) { gaptrace.go(swap.href); } },
  "/": function () { if (views.length) { focused().view.focusSearch(); } }};
["w", "a", "s", "d", "0", "[", "]"].forEach(function (key) { keys[key] = function () { if (views.length) { focused().view.press(key); } }; });
gaptrace.pages.push({
  here: function () { return location.pathname === "/compare"; },
  appeared: appeared,
  restore: restore,
  redraw: function () { views.forEach(function (v) { v.view.redraw(); }); },
  keys: keys
});
})();
