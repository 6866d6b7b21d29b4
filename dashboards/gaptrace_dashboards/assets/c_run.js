/* The run page: the timeline with its steps, selection, closer looks and the address; tabs. */
(function () {
"use strict";
var gaptrace = window.gaptrace, all = gaptrace.all;
var own = null;      // {place, run, view, shown, serial}
var wait = 0, quiet = false;

function looks() { return JSON.parse(document.getElementById("looks").dataset.looks); }
gaptrace.looks = looks;

function appeared() {
  var place = document.getElementById("timeline-canvas");
  if (!place) { if (own) { if (own.view) { own.view.destroy(); } own = null; } return; }
  if (own && own.place === place && own.run === place.dataset.run) { return; }
  if (own && own.view) { own.view.destroy(); }
  own = {place: place, run: place.dataset.run, view: null, shown: null, serial: 0};
  delete place.dataset.ready;
  panel(null);
  restore();
}
/* React keeps an element while another run takes its place: one listener for all of them. */
document.addEventListener("gaptrace:select", function (event) { if (own && event.target === own.place) { selected(event); } });
document.addEventListener("gaptrace:view", function (event) { if (own && event.target === own.place) { moved(event); } });
function asked() {
  var query = gaptrace.params(), found = {};
  ["step", "gap", "t", "at"].forEach(function (name) { if (query.get(name) !== null) { found[name] = query.get(name); } });
  return found;
}
function range(text) { var m = /^(-?\d+)-(-?\d+)$/.exec(text || ""); return m ? [+m[1], +m[2]] : null; }
function restore() {
  if (!own) { return; }
  var want = asked(), t = range(want.t), at = range(want.at), query = {};
  if (want.gap !== undefined) { query.gap = want.gap; } else if (at) { query.from = at[0]; query.to = at[1]; }
  else if (want.step !== undefined) { query.step = want.step; }
  else if (t) { query.from = t[0]; query.to = t[1]; }
  load(query, function () {
    quiet = true;
    if (want.gap !== undefined) { selectGap(+want.gap); } else if (at) { own.view.selectRange(at[0], at[1]); } else { own.view.clear(); }
    if (t) { own.view.setView(t[0], t[1]); }
    quiet = false;
  });
}
/* Get a window and show it; `then` runs once it is there, unless another was asked for since. */
function load(query, then) {
  var mine = own, serial = ++own.serial, address = new URLSearchParams(Object.assign({run: own.run}, query)).toString();
  if (mine.shown && mine.address === address) { if (then) { then(); } return; }
  fetch("/api/timeline?" + address).then(function (answer) {
    if (!answer.ok) { throw new Error(String(answer.status)); }
    return answer.json();
  }).then(function (got) {
    if (own !== mine || own.serial !== serial) { return; }
    own.address = address;
    show(got);
    if (then) { then(); }
  }, function () {
    var said = document.getElementById("timeline-said");
    if (said && own === mine) { said.textContent = "The timeline could not be loaded: the run or the server has gone."; }
  });
}
function show(got) {
  own.shown = got;
  quiet = true;
  if (own.view) { own.view.setData(got.data); }
  else { own.view = window.gaptraceTimeline(own.place, got.data, {looks: looks(), names: got.data.names, dark: gaptrace.dark}); }
  quiet = false;
  document.getElementById("timeline-said").textContent = got.said;
  document.getElementById("timeline-notes").textContent = got.notes.length ? got.notes.join("; ") + (got.coarse ? "; zoom in for all of it" : "") : "";
  gaptrace.put_html(document.getElementById("timeline-legend"), got.legend);
  gaptrace.put_html(document.getElementById("timeline-gaps"), got.gaps);
  document.getElementById("step-previous").disabled = got.previous === null;
  document.getElementById("step-next").disabled = got.next === null;
  document.getElementById("step-whole").hidden = !got.part;
  all("#timeline .pick").forEach(function (b) { b.setAttribute("aria-pressed", String(+b.dataset.step === got.step)); });
  own.place.dataset.ready = String(got.step);
}
function step(index) {
  if (index === null || index === undefined) { return; }
  clearTimeout(wait);
  gaptrace.put({step: index, gap: null, t: null, at: null}, "push");
  panel(null);
  load({step: index}, function () { own.view.clear(); });
}
function jump(from, to) {
  var data = own.shown && own.shown.data;
  clearTimeout(wait);
  gaptrace.put({at: from + "-" + to, gap: null, t: null, step: null}, "push");
  function there() {
    own.view.selectRange(from, to);
    document.getElementById("timeline").scrollIntoView({block: "start"});
    own.view.focus();
  }
  if (data && data.start_ns <= from && to <= data.start_ns + data.span_ns && !own.shown.part) { there(); } else { load({from: from, to: to}, there); }
}

/* A step measured without the profiler: the server analyses the run again with it. */
function give(text) { gaptrace.put({given: text || null}, "page"); }
document.addEventListener("keydown", function (event) {
  if (event.target.id === "given" && event.key === "Enter") { give(event.target.value.trim()); }
});
document.addEventListener("click", function (event) {
  if (event.target.id === "given-apply") { give(document.getElementById("given").value.trim()); }
  if (event.target.id === "given-remove") { give(""); }
});

/* Selection: gaps have a panel with everything known about them. */
function gapIndex(number) { return own.shown.data.gap_numbers.indexOf(number); }
function selectGap(number) {
  var i = gapIndex(number);
  if (i < 0) { return; }
  var data = own.shown.data, start = data.start_ns, k;
  for (k = 0; k <= i; k++) { start += data.gaps.start[k]; }
  own.view.selectRange(start, start + data.gaps.dur[i]);
  panel(number);
}
function selected(event) {
  var what = event.detail;
  if (what && what.kind === "gap") {
    var number = own.shown.data.gap_numbers[what.index];
    panel(number);
    if (!quiet) { gaptrace.put({gap: number, at: null}, "replace"); }
  } else {
    panel(null);
    if (!quiet) { gaptrace.put({gap: null, at: what ? Math.round(what.start_ns) + "-" + Math.round(what.end_ns) : null}, "replace"); }
  }
}
function panel(number) {
  var place = document.getElementById("gap-panel"), mine = own;
  if (!place || place.dataset.gap === String(number)) { return; }
  place.dataset.gap = String(number);
  if (number === null) { place.replaceChildren(); return; }
  fetch("/api/gap?" + new URLSearchParams({run: own.run, gap: number})).then(function (a) { return a.text(); }).then(function (text) {
    if (own === mine && place.dataset.gap === String(number)) { gaptrace.put_html(place, text); }
  }, function () { place.replaceChildren(); });
}

/* Zoom: into the address after a moment, and a closer look where the window was coarse. */
function moved(event) {
  if (quiet || event.detail.by !== "user") { return; }
  clearTimeout(wait);
  wait = setTimeout(function () { settle(Math.round(event.detail.start_ns), Math.round(event.detail.end_ns)); }, 220);
}
function settle(from, to) {
  if (!own || !own.shown) { return; }
  var data = own.shown.data, span = to - from, whole = span >= data.span_ns * .98;
  gaptrace.put(whole && !own.shown.part ? {t: null} : {t: from + "-" + to, step: own.shown.step >= 0 ? own.shown.step : null}, "replace");
  if (own.shown.part && whole) {
    load(own.shown.step >= 0 ? {step: own.shown.step} : {from: from, to: to});
  } else if (own.shown.coarse && span < data.span_ns / 3) {
    load({from: Math.max(from - span, data.start_ns), to: Math.min(to + span, data.start_ns + data.span_ns), step: own.shown.step, fine: 1}, function () {
      own.view.setView(from, to);
    });
  }
}

document.addEventListener("click", function (event) {
  if (!own) { return; }
  var place = event.target.closest("[data-from][data-to]");
  if (place) { event.preventDefault(); jump(+place.dataset.from, +place.dataset.to); return; }
  var bar = event.target.closest("[data-step],a[data-view^=step]");
  if (bar && !bar.closest("#timeline-canvas")) { event.preventDefault(); step(+(bar.dataset.step || bar.dataset.view.slice(4))); if (!bar.closest("#timeline")) { document.getElementById("timeline").scrollIntoView({block: "start"}); } return; }
  var id = event.target.id;
  if (id === "step-previous") { step(own.shown.previous); }
  if (id === "step-next") { step(own.shown.next); }
  if (id === "step-whole") { step(own.shown.step); }
}, true);

/* A slider says where it stands. */
document.addEventListener("input", function (event) {
  var told = event.target.type === "range" && event.target.closest(".slider").querySelector("output");
  if (told) { told.textContent = event.target.value; }
});

/* Tabs: arrow keys move between them, as tabs do. */
function mark(name) {
  all("#tabs .gt-tab").forEach(function (b) {
    b.setAttribute("aria-selected", String(b.dataset.tab === name));
    b.tabIndex = b.dataset.tab === name ? 0 : -1;
  });
}
function tab(button) {
  mark(button.dataset.tab);
  gaptrace.put({tab: button.dataset.tab}, "page");
}
document.addEventListener("click", function (event) { var b = event.target.closest(".gt-tab"); if (b) { tab(b); } });
document.addEventListener("keydown", function (event) {
  var b = event.target.closest && event.target.closest(".gt-tab"), list = all("#tabs .gt-tab");
  var by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!b || !by) { return; }
  event.preventDefault();
  b = list[(list.indexOf(b) + by + list.length) % list.length];
  tab(b);
  b.focus();
});
/* Keys. */
function withView(act) { return function () { if (own && own.view) { act(own.view); } }; }
var keys = {
  j: function () { gaptrace.finding(1); }, k: function () { gaptrace.finding(-1); },
  n: function () { if (own && own.shown) { step(own.shown.next); } }, p: function () { if (own && own.shown) { step(own.shown.previous); } },
  "/": withView(function (view) { document.getElementById("timeline").scrollIntoView({block: "start"}); view.focusSearch(); })
};
["w", "a", "s", "d", "0", "[", "]"].forEach(function (key) { keys[key] = withView(function (view) { view.press(key); }); });
gaptrace.pages.push({
  here: function () { return location.pathname === "/run"; },
  appeared: appeared,
  restore: function () { restore(); mark(gaptrace.get("tab") || "kernels"); },
  redraw: function () { if (own && own.view) { own.view.redraw(); } },
  keys: keys,
  current: function () { return own && own.view; }
});
})();
