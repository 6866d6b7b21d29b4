/* What the scripts of a report and of the dashboard share, as `gaptrace`: elements, theme, copying,
   the list of findings, keys. */
(function () {
"use strict";
var root = document.documentElement;
function all(selector, within) { return Array.from((within || document).querySelectorAll(selector)); }
function make(tag, css, text) {
  var e = document.createElement(tag);
  if (css) { e.className = css; }
  if (text !== undefined) { e.textContent = text; }
  return e;
}
function button(text, title, act) {
  var b = make("button", "", text);
  b.type = "button";
  if (title) { b.title = title; }
  b.addEventListener("click", act);
  return b;
}
/* As `gaptrace.units.middle_elided`. */
function cut(text, size) {
  if (text.length <= size) { return text; }
  var head = Math.ceil((size - 1) / 2);
  return size < 2 ? "" : text.slice(0, head) + "…" + text.slice(text.length - (size - 1 - head));
}

/* Theme: the one that was chosen, else the system's. */
function dark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
function keepTheme(name) {
  root.dataset.theme = name;
  try { localStorage.setItem("gaptrace-theme", name); } catch (refused) { /* not kept */ }
}

/* Says something in place of an element's own words, for a while. */
function tell(place, text) {
  place.gaptraceWords = place.gaptraceTold ? place.gaptraceWords : place.textContent;
  place.textContent = text;
  clearTimeout(place.gaptraceTold);
  place.gaptraceTold = setTimeout(function () { place.gaptraceTold = 0; place.textContent = place.gaptraceWords; }, 3000);
}
function csv(lines) {
  return lines.map(function (line) {
    return line.map(function (value) {
      var text = value === undefined || value === null ? "" : String(value);
      return /[",\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
    }).join(",") + "\n";
  }).join("");
}
function copy(text, place) {
  function done() { tell(place, "copied"); }
  function fallback() {
    var area = make("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    var ok = document.execCommand("copy");
    area.remove();
    tell(place, ok ? "copied" : "the browser refused to copy");
  }
  if (navigator.clipboard && window.isSecureContext) { navigator.clipboard.writeText(text).then(done, fallback); } else { fallback(); }
}

/* The next finding that is shown, or the one before; opened. */
function finding(by) {
  var items = all(".findings > li > details").filter(function (d) { return d.offsetParent; });
  if (!items.length) { return; }
  var at = items.findIndex(function (d) { return d.contains(document.activeElement); });
  var next = items[Math.min(Math.max(at + by, 0), items.length - 1)];
  next.open = true;
  next.querySelector("summary").focus();
  next.scrollIntoView({block: "nearest"});
}
function help() {
  var dialog = document.getElementById("keys");
  if (dialog) { if (dialog.open) { dialog.close(); } else { dialog.showModal(); } }
}
/* `actOf(key)` is what a key does, where no field has the focus. */
function onKey(actOf) {
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) { return; }
    var act = actOf(event.key);
    if (act) { event.preventDefault(); act(); }
  });
}
window.gaptrace = {all: all, make: make, button: button, cut: cut, dark: dark, keepTheme: keepTheme, tell: tell, csv: csv,
  copy: copy, finding: finding, help: help, onKey: onKey};
})();
