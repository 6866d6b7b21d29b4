/* The timeline of one stretch of a recording on canvas; shared by the HTML report and the dashboard.

   gaptraceTimeline(element, data, options) -> {setData, setView, view, fit, select, selectRange,
       clear, search, step, redraw, focus, press, destroy}

   data: one `gaptrace.timeline/1` object; `data.names` or `options.names` holds its texts.
   options: looks (required: causes, states, classes as the page gives them), names, dark() -> bool,
       wheel "focused" (default: the page scrolls until the timeline has focus) or "always".
   Events on the element, which bubble: `gaptrace:select` {kind, index, name, start_ns, end_ns} or
   null when cleared; `gaptrace:view` {start_ns, end_ns, by: "user" | "code"}.
   Keys while it has focus: w s zoom, a d move, 0 fit, [ ] gaps, arrows blocks and lanes, Enter zoom
   to the selection, Escape clear. Only what is visible is drawn, and what is narrower than a few
   pixels as its share of each, in one picture of a row a lane. Times are ns from the start of the
   stretch. */
(function () {
"use strict";

var make = window.gaptrace.make, cut = window.gaptrace.cut, GUTTER = 132, MAP = 26, AXIS = 22, FINE = 4, HEIGHTS = {gpu: 26, gap: 30, call: 12, state: 16, op: 16, frame: 13};
/* As gaptrace.units: three digits, a comma between thousands from 10,000 on. */
function grouped(text) { return text.replace(/^-?\d+/, function (whole) { return whole.replace("-", "").length < 5 ? whole : whole.replace(/\B(?=(\d{3})+$)/g, ","); }); }

function digits(value) {
  var size = Math.abs(value);
  if (size === 0) { return "0"; }
  var places = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : Math.min(2 - Math.floor(Math.log10(size)), 9);
  return grouped(value.toFixed(places));
}

function timeText(ns) {
  var size = Math.abs(ns), unit = ["s", 1e9];
  [["ns", 1], ["µs", 1e3], ["ms", 1e6]].some(function (u) { if (size < 999.5 * u[1]) { unit = u; return true; } return false; });
  return digits(ns / unit[1]) + " " + unit[0];
}

function lane(type, label, columns, kind, extra) {
  var n = columns.start.length, start = new Float64Array(n), end = new Float64Array(n);
  var reach = new Float64Array(n), at = 0, far = -Infinity;
  for (var i = 0; i < n; i++) {
    at += columns.start[i];
    start[i] = at;
    end[i] = at + columns.dur[i];
    far = Math.max(far, end[i]);
    reach[i] = far;
  }
  return Object.assign({type: type, label: label, n: n, start: start, end: end, reach: reach,
    name: columns.name, kind: kind, height: HEIGHTS[type], hits: []}, extra);
}

/* Pieces without starts fill the given stretches in order. */
function fill(pieces, into) {
  var start = [], i = 0, at = 0, last = 0;
  into.start.forEach(function (delta, k) {
    at += delta;
    for (var t = at, end = at + into.dur[k]; t < end && i < pieces.dur.length; t += pieces.dur[i++]) {
      start.push(t - last);
      last = t;
    }
  });
  return {start: start, dur: pieces.dur.slice(0, start.length)};
}

function nested(type, label, columns) {
  var rows = [], at = 0;
  columns.start.forEach(function (delta, i) {
    at += delta;
    var row = rows[columns.depth[i]] = rows[columns.depth[i]] ||
      {start: [], dur: [], name: [], last: 0};
    row.start.push(at - row.last);
    row.last = at;
    row.dur.push(columns.dur[i]);
    row.name.push(columns.name[i]);
  });
  return rows.filter(Boolean).map(function (row, depth) {
    return lane(type, depth ? "" : label, row, null, {depth: depth});
  });
}

function decode(data) {
  var lanes = data.gpu.map(function (g) {
    return lane("gpu", "GPU " + g.label, g, g["class"], {call: g.call, merged: g.merged});
  });
  var drained = {};
  data.gaps.drained.forEach(function (i) { drained[i] = true; });
  var parts = lane("part", "", fill(data.parts, data.gaps), data.parts.cause);
  lanes.push(lane("gap", "gaps, by cause", data.gaps, data.gaps.cause,
    {call: data.gaps.call, before: data.gaps.before, drained: drained, parts: parts}));
  if (data.calls.start.length) {
    lanes.push(lane("call", "launch calls", data.calls, data.calls.graph));
  }
  data.host.forEach(function (h) {
    lanes.push(lane("state", h.label, fill(h.states, {start: [0], dur: [data.span_ns]}), h.states.state));
    lanes = lanes.concat(nested("op", "ops, nested", h.ops), nested("frame", "Python", h.frames));
  });
  var y = 4;
  lanes.forEach(function (l, i) {
    var before = lanes[i - 1];
    if (before && before.type !== l.type) { y += 8; }
    l.y = y;
    y += l.height + 1;
  });
  return {lanes: lanes, height: y + 4, calls: lanes.find(function (l) { return l.type === "call"; }),
    gaps: lanes.find(function (l) { return l.type === "gap"; }), steps: lane("step", "", data.steps)};
}

/* First index whose blocks can still reach past t. */
function firstAfter(l, t) {
  var lo = 0, hi = l.n;
  while (lo < hi) {
    var mid = (lo + hi) >> 1;
    if (l.reach[mid] > t) { hi = mid; } else { lo = mid + 1; }
  }
  return lo;
}

function blockAt(l, t, slack) {
  var best = -1, near = slack;
  for (var i = firstAfter(l, t - slack); i < l.n && l.start[i] <= t + slack; i++) {
    if (l.start[i] <= t && t < l.end[i]) { best = i; near = 0; continue; }
    var away = Math.min(Math.abs(l.start[i] - t), Math.abs(l.end[i] - t));
    if (away < near) { best = i; near = away; }
  }
  return best;
}

/* A colour as the bytes of a pixel without its alpha. */
function bytes(context, colour) {
  context.fillStyle = colour;
  var value = parseInt(context.fillStyle.slice(1, 7), 16);
  return (value & 255) << 16 | value & 0xff00 | value >> 16;
}

/* solid: the colour, null for an outline. fill: with its pattern. fine: bytes for what is too
   narrow for a pattern, and weight: how much of a patterned block is ink. */
function inks(looks, dark, ratio, context, tone) {
  function ink(look) {
    var colour = dark ? look.dark : look.light, tile = look.tile;
    if (colour === "none") { return {solid: null, fine: bytes(context, tone.soft), weight: .4}; }
    var fine = bytes(context, colour);
    if (!tile) { return {solid: colour, fill: colour, fine: fine, weight: 1}; }
    var own = document.createElement("canvas"), size = Math.round(tile[0] * ratio);
    own.width = own.height = size;
    var c = own.getContext("2d");
    c.scale(size / tile[0], size / tile[0]);
    c.fillStyle = c.strokeStyle = colour;
    c.globalAlpha = tile[3];
    c.fillRect(0, 0, tile[0], tile[0]);
    c.globalAlpha = 1;
    c.lineWidth = tile[2];
    if (tile[2]) { c.stroke(new Path2D(tile[1])); } else { c.fill(new Path2D(tile[1])); }
    var fill = context.createPattern(own, "repeat");
    fill.setTransform(new DOMMatrix().scale(1 / ratio));
    return {solid: colour, fill: fill, fine: fine, weight: tile[3] ? .7 : .4};
  }
  function plain(colour) { return {solid: colour, fill: colour, fine: bytes(context, colour), weight: 1}; }
  return {causes: looks.causes.map(ink), states: looks.states.map(ink), classes: looks.classes.map(ink),
    call: plain(tone.soft), block: plain(tone.block)};
}

function gaptraceTimeline(element, data, options) {
  var names, model, view, chosen = null, hover = null, found = [], drag = null, frame = 0;
  var room = 50, tone = null, ink = null, inkKey = "", strips = document.createElement("canvas"), bits = null, busy = null, busyKey = "";
  var host = make("div", "tl"), bar = make("div", "tl-bar"), map = make("canvas", "tl-map");
  var scroll = make("div", "tl-scroll"), canvas = make("canvas", "tl-canvas"), told = make("div", "tl-told");
  element.replaceChildren(host);
  host.append(bar, map, scroll, told);
  scroll.append(canvas);
  var box = make("input", "tl-search");
  box.type = "search";
  box.placeholder = "search names  ( / )";
  box.setAttribute("aria-label", "search kernels, ops and calls");
  var hits = make("span", "tl-hits");
  hits.setAttribute("role", "status");
  bar.append(box, hits, button("−", "zoom out (s)", function () { zoom(1.6); }),
    button("+", "zoom in (w)", function () { zoom(1 / 1.6); }), button("fit", "fit (0)", fit),
    button("‹ gap", "previous gap ( [ )", function () { step("gap", -1); }),
    button("gap ›", "next gap ( ] )", function () { step("gap", 1); }), make("span", "tl-hint", "click, then wheel or w a s d to zoom and move"));
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "timeline");
  map.setAttribute("aria-hidden", "true");
  told.setAttribute("aria-live", "polite");

  function button(text, title, act) {
    var b = window.gaptrace.button(text, title, act);
    b.setAttribute("aria-label", title);
    return b;
  }
  function text(i) { return i >= 0 && names[i] !== undefined ? names[i] : "–"; }
  function x(t) { return GUTTER + (t - view[0]) / (view[1] - view[0]) * room; }
  function time(px) { return view[0] + (px - GUTTER) / room * (view[1] - view[0]); }
  function wide(l, i) { return Math.max((l.end[i] - l.start[i]) / (view[1] - view[0]) * room, 2); }
  function upright(c, at, from) { c.beginPath(); c.moveTo(at, from); c.lineTo(at, AXIS + model.height); c.stroke(); }
  function zero() { return data.step ? data.step[0] : 0; }

  function setData(next, nextOptions) {
    data = next;
    options = Object.assign({}, options, nextOptions);
    names = data.names || options.names || [];
    model = decode(data);
    chosen = hover = null;
    found = [];
    busyKey = "";
    canvas.style.height = model.height + AXIS + "px";
    canvas.setAttribute("aria-label", data.title + ". Arrow keys move between blocks, [ and ] between gaps.");
    view = [0, data.span_ns];
    tell();
    redraw();
  }
  function setView(from, to, by) {
    var span = Math.min(Math.max(to - from, 50), data.span_ns * 1.02), room = data.span_ns * .01;
    from = Math.min(Math.max(from, -room), data.span_ns + room - span);
    view = [from, from + span];
    element.dispatchEvent(new CustomEvent("gaptrace:view", {bubbles: true, detail: {
      start_ns: data.start_ns + view[0], end_ns: data.start_ns + view[1], by: by || "code"}}));
    redraw();
  }
  function fit() { setView(0, data.span_ns, "user"); }
  function zoom(factor, at) {
    var middle = at === undefined ? (view[0] + view[1]) / 2 : at;
    setView(middle - (middle - view[0]) * factor, middle + (view[1] - middle) * factor, "user");
  }
  function move(share) { var d = (view[1] - view[0]) * share; setView(view[0] + d, view[1] + d, "user"); }

  /* Selection: {lane, index}. */
  function select(next, zoomTo) {
    chosen = next;
    if (next) {
      var l = next.lane, from = l.start[next.index], to = l.end[next.index], room = Math.max(to - from, 50);
      if (zoomTo) { setView(from - room * 4, to + room * 4); }
      else if (to < view[0] || from > view[1]) { var half = (view[1] - view[0]) / 2; setView((from + to) / 2 - half, (from + to) / 2 + half); }
      var top = l.y, seen = scroll.clientHeight;
      if (top < scroll.scrollTop || top + l.height + AXIS > scroll.scrollTop + seen) { scroll.scrollTop = Math.max(top - seen / 2, 0); }
    }
    tell();
    element.dispatchEvent(new CustomEvent("gaptrace:select", {bubbles: true, detail: next && {
      kind: next.lane.type, index: next.index, name: next.lane.name ? text(next.lane.name[next.index]) : "",
      start_ns: data.start_ns + next.lane.start[next.index], end_ns: data.start_ns + next.lane.end[next.index]}}));
    redraw();
  }
  /* The block that fits a stretch of trace time best: a gap before anything else. */
  function selectRange(from_ns, to_ns) {
    var from = from_ns - data.start_ns, to = to_ns - data.start_ns, best = null, score = Infinity;
    model.lanes.forEach(function (l) {
      for (var i = firstAfter(l, from - 1); i < l.n && l.start[i] <= to; i++) {
        var off = Math.abs(l.start[i] - from) + Math.abs(l.end[i] - to) + (l.type === "gap" ? 0 : l.type === "state" ? 3 : 1);
        if (off < score) { score = off; best = {lane: l, index: i}; }
      }
    });
    var room = Math.max((to - from) * 2, 3000);
    setView(from - room, to + room);
    select(score <= (to - from) * .5 + 4 ? best : null);
  }
  function step(type, by) {
    var l = type === "gap" ? model.gaps : chosen && chosen.lane;
    if (!l || !l.n) { return; }
    var i = chosen && chosen.lane === l ? chosen.index + by : Math.min(firstAfter(l, (view[0] + view[1]) / 2), l.n - 1);
    if (i >= 0 && i < l.n) { select({lane: l, index: i}); }
  }
  function otherLane(by) {
    var order = model.lanes, at = chosen ? order.indexOf(chosen.lane) + by : 0;
    var middle = chosen ? (chosen.lane.start[chosen.index] + chosen.lane.end[chosen.index]) / 2 : (view[0] + view[1]) / 2;
    for (; at >= 0 && at < order.length; at += by) {
      if (order[at].n) {
        var i = blockAt(order[at], middle, Infinity);
        if (i >= 0) { select({lane: order[at], index: i}); return; }
      }
    }
  }
  function search(query) {
    query = query.trim().toLowerCase();
    found = [];
    model.lanes.forEach(function (l) { l.hits = []; });
    if (query) {
      var match = names.map(function (n) { return n.toLowerCase().indexOf(query) >= 0; });
      model.lanes.forEach(function (l) {
        if (l.name && l.type !== "gap") { for (var i = 0; i < l.n; i++) { if (match[l.name[i]]) { l.hits.push(i); found.push({lane: l, index: i}); } } }
      });
      found.sort(function (a, b) { return a.lane.start[a.index] - b.lane.start[b.index]; });
    }
    hits.textContent = query ? found.length + " found" : "";
    redraw();
    return found.length;
  }
  function nextHit(by) {
    if (!found.length) { return; }
    var at = found.findIndex(function (f) { return chosen && f.lane === chosen.lane && f.index === chosen.index; });
    at = at < 0 ? (by > 0 ? 0 : found.length - 1) : (at + by + found.length) % found.length;
    hits.textContent = (at + 1) + " of " + found.length;
    select(found[at], true);
  }

  /* Nanoseconds in the file's own clock, as Perfetto's address takes them; a block is shown with as
     much again on both sides. */
  function fileTime(t) { return String(BigInt(data.origin_ns || 0) + BigInt(Math.round(data.start_ns + t))); }
  /* What the selected or hovered block is, in words. */
  function opsAround(t) {
    return model.lanes.filter(function (l) { return l.type === "op"; }).map(function (l) {
      var i = blockAt(l, t, 0);
      return i >= 0 && l.start[i] <= t && t < l.end[i] ? text(l.name[i]) : null;
    }).filter(Boolean);
  }
  function told_of(c) {
    var l = c.lane, i = c.index, from = l.start[i], to = l.end[i], rows = [], title;
    var call = l.call ? l.call[i] : -1, calls = model.calls;
    rows.push(["time", timeText(to - from) + " at " + timeText(from - zero())]);
    if (l.type === "gap") {
      title = "gap " + (data.gaps.first + i) + ": " + timeText(to - from) + " idle";
      var spent = {}, p = l.parts;
      for (var k = firstAfter(p, from); k < p.n && p.start[k] < to; k++) { spent[p.kind[k]] = (spent[p.kind[k]] || 0) + p.end[k] - p.start[k]; }
      Object.keys(spent).sort(function (a, b) { return spent[b] - spent[a]; }).forEach(function (cause) {
        rows.push([options.looks.causes[cause].word, timeText(spent[cause]) + " (" + Math.round(100 * spent[cause] / (to - from)) + " %)", options.looks.causes[cause]]);
      });
      rows.push(["after", text(l.before[i])], ["before", text(l.name[i])]);
      if (l.drained[i]) { rows.push(["drained by sync", "somebody waited, so the queue was empty"]); }
    } else if (l.type === "state") {
      title = options.looks.states[l.kind[i]].word;
    } else {
      title = text(l.name[i]);
      if (l.type === "gpu") { rows.push(["class", options.looks.classes[l.kind[i]].word]); }
    }
    var ops = l.type === "call" || l.type === "state" ? opsAround((from + to) / 2) : [];
    if (call >= 0 && calls) {
      var at = calls.start[call];
      rows.push(["launched by", text(calls.name[call]) + ", " + timeText((l.type === "gap" ? to : from) - at) + " earlier"]);
      ops = opsAround(at);
    }
    if (ops.length) { rows.push(["inside", ops.join(" › ")]); }
    rows.push(["in Perfetto", "visStart=" + fileTime(2 * from - to) + "&visEnd=" + fileTime(2 * to - from)]);
    return [title, rows];
  }
  function tell() {
    if (!chosen) {
      var notes = (data.notes || []).map(function (note) { return " " + note + "."; }).join("");
      told.replaceChildren(make("p", "soft", "Nothing selected. Click a block, or press ] for the next gap." + notes));
      return;
    }
    var said = told_of(chosen), list = make("dl", "facts");
    told.replaceChildren(make("p", "strong", said[0]), list);
    said[1].forEach(function (row) {
      var pair = make("div", "");
      pair.append(make("dt", "", row[0]), make("dd", "", row[1]));
      list.append(pair);
    });
  }

  function redraw() { if (!frame) { frame = requestAnimationFrame(paint); } }
  function surface(target, height) {
    var ratio = window.devicePixelRatio || 1, width = target.clientWidth;
    if (target.width !== Math.round(width * ratio) || target.height !== Math.round(height * ratio)) {
      target.width = Math.round(width * ratio);
      target.height = Math.round(height * ratio);
    }
    var c = target.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    return c;
  }
  function paint() {
    frame = 0;
    if (!canvas.clientWidth) { return; }
    room = Math.max(canvas.clientWidth - GUTTER, 50);
    var dark = options.dark ? options.dark() : false, ratio = window.devicePixelRatio || 1, key = dark + "/" + ratio;
    var c = surface(canvas, model.height + AXIS);
    if (key !== inkKey) {
      var css = getComputedStyle(element);
      tone = {font: css.fontFamily};
      ["ink", "soft", "line", "block", "accent"].forEach(function (name) { tone[name] = css.getPropertyValue("--" + name).trim(); });
      ink = inks(options.looks, dark, ratio, c, tone);
      inkKey = key;
    }
    c.font = "12px " + tone.font;
    tone.letter = tone.letter || c.measureText("void at::native::elementwise_kernel").width / 35;
    c.textBaseline = "middle";
    axis(c);
    c.save();
    c.beginPath();
    c.rect(GUTTER, AXIS, room, model.height);
    c.clip();
    lanes(c, ratio);
    mark(c, hover, tone.soft, 1);
    mark(c, chosen, tone.ink, 2);
    c.restore();
    c.fillStyle = tone.soft;
    c.textAlign = "right";
    model.lanes.forEach(function (l) {
      if (l.label) { c.fillText(cut(l.label, 17), GUTTER - 8, AXIS + l.y + l.height / 2 + .5); }
    });
    minimap(key);
  }
  /* A name cut to fit; its namespace goes first. */
  function fitted(s, size) { return s.length <= size ? s : cut(s.replace(/^[\w:]*::/, ""), size); }
  function lanes(c, ratio) {
    var wide = Math.ceil(room * ratio), rows = model.lanes.length;
    if (!bits || bits.width !== wide || bits.height !== rows) {
      strips.width = wide;
      strips.height = rows;
      bits = new ImageData(wide, rows);
    }
    var pixels = new Uint32Array(bits.data.buffer), cover = new Float32Array(wide), most = new Float32Array(wide), colour = new Uint32Array(wide);
    pixels.fill(0);
    model.lanes.forEach(function (l, row) {
      if (!blocks(c, l, ratio, cover, most, colour)) { return; }
      for (var p = 0, at = row * wide; p < wide; p++, at++) {
        if (cover[p]) { pixels[at] = (Math.max(Math.min(cover[p], 1), .18) * 255) << 24 | colour[p]; cover[p] = most[p] = 0; }
      }
    });
    strips.getContext("2d").putImageData(bits, 0, 0);
    c.imageSmoothingEnabled = false;
    model.lanes.forEach(function (l, row) {
      c.drawImage(strips, 0, row, wide, 1, GUTTER, AXIS + l.y, wide / ratio, l.height);
      hitMarks(c, l);
    });
  }
  /* Draw what is wide enough to be seen as a block; add up the ink of the rest pixel by pixel, and
     say whether there was any. */
  function blocks(c, l, ratio, cover, most, colour) {
    var source = l.type === "gap" ? l.parts : l, kinds = {gpu: ink.classes, gap: ink.causes, state: ink.states}[l.type];
    var plain = l.type === "call" ? ink.call : ink.block, least = l.type === "call" ? 1.5 * ratio : .02;
    var scale = room * ratio / (view[1] - view[0]), wide = cover.length, fine = FINE * ratio, any = false, y = AXIS + l.y, h = l.height;
    var seam = l.type === "op" || l.type === "frame" || l.type === "gpu" ? 1 : 0, named = l.name && l.type !== "gap" && l.type !== "call", labels = [];
    for (var i = firstAfter(source, view[0]); i < source.n && source.start[i] < view[1]; i++) {
      var own = kinds ? kinds[source.kind[i]] : plain, from = (source.start[i] - view[0]) * scale;
      var to = Math.max((source.end[i] - view[0]) * scale, from + least);
      if (to - from < fine) {
        any = true;
        for (var p = Math.max(Math.floor(from), 0); p < to && p < wide; p++) {
          var part = (Math.min(p + 1, to) - Math.max(p, from)) * own.weight;
          cover[p] += part;
          if (part > most[p]) { most[p] = part; colour[p] = own.fine; }
        }
        continue;
      }
      var left = GUTTER + Math.max(from / ratio, -2), width = GUTTER + Math.min(to / ratio, room + 2) - left;
      if (own.solid === null) { c.strokeStyle = tone.soft; c.lineWidth = 1; c.strokeRect(left + .5, y + .5, width - 1, h - 1); }
      else { c.fillStyle = own.fill; c.fillRect(left, y, width - seam, h); }
      if (named && width > 34) { labels.push(i, left, width); }
    }
    c.textAlign = "left";
    for (var k = 0; k < labels.length; k += 3) {
      var at = Math.max(labels[k + 1], GUTTER), space = labels[k + 1] + labels[k + 2] - at - 8;
      if (space < 26) { continue; }
      c.fillStyle = l.type === "gpu" ? label(l.kind[labels[k]]) : tone.ink;
      c.fillText(fitted(text(l.name[labels[k]]), Math.floor(space / tone.letter)), at + 4, y + h / 2 + .5, space);
    }
    return any;
  }
  /* What the search found, a mark for each pixel at most. */
  function hitMarks(c, l) {
    var last = -1;
    c.fillStyle = tone.accent;
    l.hits.forEach(function (i) {
      if (l.end[i] < view[0] || l.start[i] > view[1]) { return; }
      var left = x(l.start[i]), right = left + wide(l, i);
      if (right <= last) { return; }
      left = Math.max(left, last);
      c.fillRect(left, AXIS + l.y + l.height - 3, right - left, 3);
      last = right;
    });
  }
  function label(kind) {
    return kind < 2 && !(options.dark && options.dark()) ? "#fff" : "#0d1113";
  }
  function axis(c) {
    var span = view[1] - view[0], size = Math.pow(10, Math.floor(Math.log10(span / 6)));
    [1, 2, 5, 10].some(function (m) { if (span / (size * m) <= room / 110) { size *= m; return true; } return false; });
    var unit = span < 1e4 ? ["ns", 1] : span < 1e7 ? ["µs", 1e3] : ["ms", 1e6];
    c.textAlign = "center";
    for (var t = Math.ceil((view[0] - zero()) / size) * size; t + zero() <= view[1]; t += size) {
      var at = Math.round(x(t + zero())) + .5, places = Math.max(0, Math.ceil(-Math.log10(size / unit[1]) - 1e-9));
      c.strokeStyle = tone.line;
      c.lineWidth = 1;
      upright(c, at, AXIS - 4);
      c.fillStyle = tone.soft;
      if (at > GUTTER + 18 && at < GUTTER + room - 18) { c.fillText(grouped((t / unit[1]).toFixed(places)) + " " + unit[0], at, 9); }
    }
    c.strokeStyle = tone.soft;
    c.setLineDash([3, 3]);
    for (var i = 0; i < model.steps.n; i++) {
      var edge = Math.round(x(model.steps.start[i])) + .5;
      if (edge > GUTTER) { upright(c, edge, AXIS - 6); }
    }
    c.setLineDash([]);
  }
  function mark(c, what, colour, width) {
    if (!what) { return; }
    var l = what.lane, i = what.index, left = x(l.start[i]), w = wide(l, i);
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.strokeRect(left - .5, AXIS + l.y - .5, w + 1, l.height + 1);
    var call = l.call ? l.call[i] : -1;
    if (call < 0 || !model.calls) { return; }
    var from = [x(model.calls.start[call]), AXIS + model.calls.y];
    var to = l.type === "gap" ? [left + w, AXIS + l.y + l.height] : [left, AXIS + l.y + l.height];
    c.beginPath();
    c.moveTo(from[0], from[1]);
    c.bezierCurveTo(from[0], from[1] - 14, to[0], to[1] + 14, to[0], to[1]);
    c.moveTo(to[0] - 4, to[1] + 7); c.lineTo(to[0], to[1]); c.lineTo(to[0] + 4, to[1] + 7);
    c.stroke();
    c.strokeRect(from[0] - 1, from[1] - 1, wide(model.calls, call) + 2, model.calls.height + 2);
  }
  /* Where the GPU is busy, drawn once for all views of the same stretch. */
  function busyMap(key) {
    var width = map.clientWidth - GUTTER, scale = width / data.span_ns, share = new Float64Array(Math.ceil(width) + 1), ratio = window.devicePixelRatio || 1;
    if (busyKey === key + width) { return; }
    busyKey = key + width;
    busy = document.createElement("canvas");
    busy.width = Math.round(width * ratio);
    busy.height = Math.round(MAP * ratio);
    model.lanes.forEach(function (l) {
      if (l.type !== "gpu") { return; }
      for (var i = 0; i < l.n; i++) {
        var from = Math.max(l.start[i] * scale, 0), to = Math.min(l.end[i] * scale, width);
        for (var p = Math.floor(from); p < to; p++) { share[p] += Math.min(p + 1, to) - Math.max(p, from); }
      }
    });
    var c = busy.getContext("2d");
    c.scale(ratio, ratio);
    c.fillStyle = ink.classes[1].solid;
    for (var p = 0; p < width; p++) { var high = Math.min(share[p], 1) * (MAP - 6); if (high > 0) { c.fillRect(p, MAP - 3 - high, 1, high); } }
  }
  function minimap(key) {
    var c = surface(map, MAP), width = map.clientWidth - GUTTER, scale = width / data.span_ns;
    busyMap(key);
    c.drawImage(busy, GUTTER, 0, width, MAP);
    c.strokeStyle = tone.line;
    c.strokeRect(GUTTER + .5, 2.5, width - 1, MAP - 5);
    var left = GUTTER + Math.max(view[0], 0) * scale, right = GUTTER + Math.min(view[1], data.span_ns) * scale;
    c.fillStyle = tone.accent;
    c.globalAlpha = .14;
    c.fillRect(left, 2, Math.max(right - left, 2), MAP - 4);
    c.globalAlpha = 1;
    c.strokeStyle = tone.accent;
    c.lineWidth = 2;
    c.strokeRect(left, 3, Math.max(right - left, 2), MAP - 6);
    c.lineWidth = 1;
    c.fillStyle = tone.soft;
    c.font = "12px " + tone.font;
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillText("busy, all of it", GUTTER - 8, MAP / 2);
  }

  function under(event) {
    var rect = canvas.getBoundingClientRect(), px = event.clientX - rect.left, py = event.clientY - rect.top - AXIS;
    var l = model.lanes.find(function (c) { return py >= c.y && py <= c.y + c.height; });
    if (!l || px < GUTTER) { return null; }
    var i = blockAt(l, time(px), 3 / room * (view[1] - view[0]));
    return i < 0 ? null : {lane: l, index: i};
  }
  canvas.addEventListener("pointerdown", function (event) {
    canvas.focus({preventScroll: true});
    drag = {x: event.clientX, view: view.slice(), moved: false};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", function (event) {
    if (drag) {
      var by = event.clientX - drag.x;
      if (Math.abs(by) > 3) { drag.moved = true; }
      if (drag.moved) { var d = by / room * (drag.view[1] - drag.view[0]); setView(drag.view[0] - d, drag.view[1] - d, "user"); }
      return;
    }
    var next = under(event);
    if ((next && next.index) !== (hover && hover.index) || (next && next.lane) !== (hover && hover.lane)) {
      hover = next;
      canvas.title = next ? brief(next) : "";
      redraw();
    }
  });
  function brief(c) {
    var said = told_of(c);
    return said[0] + "\n" + said[1].slice(0, -1).map(function (r) { return r[0] + ": " + r[1]; }).join("\n");
  }
  canvas.addEventListener("pointerup", function (event) {
    var was = drag;
    drag = null;
    if (was && !was.moved) { select(under(event)); }
  });
  canvas.addEventListener("pointerleave", function () { hover = null; redraw(); });
  canvas.addEventListener("dblclick", function (event) { var hit = under(event); if (hit) { select(hit, true); } });
  canvas.addEventListener("wheel", function (event) {
    var focused = document.activeElement === canvas || options.wheel === "always";
    if (!focused && !event.ctrlKey && !event.metaKey) { return; }
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { move((event.deltaX || event.deltaY) / room); return; }
    zoom(Math.pow(1.0015, event.deltaY), time(event.clientX - canvas.getBoundingClientRect().left));
  }, {passive: false});
  function actOf(key) {
    return {w: function () { zoom(1 / 1.4); }, s: function () { zoom(1.4); }, a: function () { move(-.2); }, d: function () { move(.2); },
      "0": fit, "[": function () { step("gap", -1); }, "]": function () { step("gap", 1); }, ArrowLeft: function () { step("", -1); },
      ArrowRight: function () { step("", 1); }, ArrowUp: function () { otherLane(-1); }, ArrowDown: function () { otherLane(1); },
      Enter: function () { if (chosen) { select(chosen, true); } }, Escape: function () { select(null); }}[key];
  }
  canvas.addEventListener("keydown", function (event) {
    var act = event.ctrlKey || event.metaKey || event.altKey ? null : actOf(event.key);
    if (act) { event.preventDefault(); event.stopPropagation(); act(); }
  });
  function onMap(event) {
    if (event.buttons !== 1) { return; }
    var rect = map.getBoundingClientRect(), t = (event.clientX - rect.left - GUTTER) / (rect.width - GUTTER) * data.span_ns, half = (view[1] - view[0]) / 2;
    setView(t - half, t + half, "user");
  }
  map.addEventListener("pointerdown", onMap);
  map.addEventListener("pointermove", onMap);
  box.addEventListener("input", function () { search(box.value); });
  box.addEventListener("keydown", function (event) {
    if (event.key === "Enter") { event.preventDefault(); nextHit(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { box.value = ""; search(""); canvas.focus(); }
  });
  var watcher = new ResizeObserver(redraw);
  watcher.observe(canvas);
  setData(data, options);
  return {
    setData: setData, setView: function (from_ns, to_ns) { setView(from_ns - data.start_ns, to_ns - data.start_ns, "code"); },
    view: function () { return [data.start_ns + view[0], data.start_ns + view[1]]; },
    fit: fit, selectRange: selectRange, clear: function () { select(null); }, step: step, redraw: redraw,
    search: function (query) { box.value = query; return search(query); },
    selected: function () { return chosen && {kind: chosen.lane.type, index: chosen.index}; },
    select: function (kind, index) { var l = model.lanes.find(function (c) { return c.type === kind; }); if (l && index < l.n) { select({lane: l, index: index}); } },
    focus: function () { canvas.focus(); }, press: function (key) { canvas.focus(); actOf(key)(); }, focusSearch: function () { box.focus(); },
    destroy: function () { watcher.disconnect(); cancelAnimationFrame(frame); element.replaceChildren(); }
  };
}
window.gaptraceTimeline = gaptraceTimeline;
})();
