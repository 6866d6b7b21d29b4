/* Tables in AG Grid: cell renderers, filters, CSV, and the list of runs with its picks. */
(function () {
"use strict";
var gaptrace = window.gaptrace, h = function () { return window.React.createElement.apply(null, arguments); };
var cells = window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {};
function elided(text, room) {
  if (!text || text.length <= room) { return text || ""; }
  var head = Math.ceil((room - 1) / 2);
  return text.slice(0, head) + "…" + text.slice(text.length - (room - 1 - head));
}
cells.GapName = function (props) {
  var whole = props.data[props.colDef.field + "_full"], full = whole || props.value || "", room = Math.max(Math.floor(props.column.getActualWidth() / 7.2) - 3, 8);
  return h("span", {title: full, className: whole ? "mono" : ""}, elided(props.value, room));
};
cells.GapLink = function (props) { return h("a", {href: props.data.href, title: props.value, tabIndex: -1}, props.value); };
cells.GapSpark = function (props) {
  var values = props.value || [], most = Math.max.apply(null, values.concat([1])), width = 96, pitch = width / Math.max(values.length, 1);
  if (!values.length) { return null; }
  var d = values.map(function (v, i) {
    var high = Math.max(18 * v / most, 1);
    return "M" + (i * pitch).toFixed(2) + " " + (20 - high).toFixed(2) + "h" + Math.max(pitch - .6, .6).toFixed(2) + "V20h-" + Math.max(pitch - .6, .6).toFixed(2) + "z";
  }).join("");
  return h("svg", {width: width, height: 20, viewBox: "0 0 96 20", role: "img", className: "spark",
    "aria-label": values.length + " step times"}, h("path", {d: d}));
};

function api(id) { try { return window.dash_ag_grid.getApi(id); } catch (absent) { return null; } }
function csv(value) { value = value === undefined || value === null ? "" : String(value); return /[",\n]/.test(value) ? '"' + value.replace(/"/g, '""') + '"' : value; }
function asCsv(grid) {
  var columns = grid.getAllDisplayedColumns().map(function (c) { return c.getColDef(); }).filter(function (c) { return c.field; });
  var lines = [columns.map(function (c) { return csv(c.headerName); }).join(",")];
  grid.forEachNodeAfterFilterAndSort(function (node) {
    lines.push(columns.map(function (c) {
      var d = node.data, f = c.field;
      return csv(f === "spark" ? (d.spark || []).join(" ") : d[f + "_full"] || (f + "_text" in d ? d[f + "_text"] : d[f]));
    }).join(","));
  });
  return lines.join("\n") + "\n";
}
document.addEventListener("click", function (event) {
  var button = event.target.closest("button.csv");
  if (button) { var grid = api(button.dataset.grid); if (grid) { gaptrace.copy(asCsv(grid), button); } }
  if (event.target.id === "compare-button") { compare(); }
});
document.addEventListener("input", function (event) {
  if (event.target.id === "grid-filter") {
    var grid = api("runs-grid");
    if (grid) { grid.setGridOption("quickFilterText", event.target.value); }
    gaptrace.put({q: event.target.value || null}, "replace");
  } else if (/-grid-filter$/.test(event.target.id)) {
    var other = api(event.target.id.replace(/-filter$/, ""));
    if (other) { other.setGridOption("quickFilterText", event.target.value); }
    var change = {};
    change[event.target.id] = event.target.value || null;
    gaptrace.put(change, "replace");
  }
});
/* Tables behind tabs: filter (`ID-filter`) and sort (`ID-sort`) come back from the address. */
var held = {};
function sortOf(grid) {
  var by = grid.getColumnState().filter(function (c) { return c.sort; })[0];
  return by ? (by.sort === "desc" ? "-" : "") + by.colId : null;
}
function sortBy(grid, text) {
  var state = text ? [{colId: text.replace(/^-/, ""), sort: text.charAt(0) === "-" ? "desc" : "asc"}] : [];
  grid.applyColumnState({state: state, defaultState: {sort: null}});
}
function restoreOther(id, grid) {
  var box = document.getElementById(id + "-filter"), want = gaptrace.get(id + "-filter") || "", sort = gaptrace.get(id + "-sort");
  if (box && document.activeElement !== box && box.value !== want) { setValue(box, want); }
  if (box) { grid.setGridOption("quickFilterText", want); }
  if (sortOf(grid) !== sort) { sortBy(grid, sort); }
}
function wireOthers() {
  gaptrace.all(".gt-grid[id$='-grid']").forEach(function (place) {
    var id = place.id, grid = id === "runs-grid" ? null : api(id);
    if (!grid || grid.isDestroyed() || held[id] === grid) { return; }
    held[id] = grid;
    grid.addEventListener("sortChanged", function (event) {
      // What the address asked for needs no writing back.
      if (event.source === "api") { return; }
      var change = {};
      change[id + "-sort"] = sortOf(grid);
      gaptrace.put(change, "replace");
    });
    restoreOther(id, grid);
  });
  Object.keys(held).forEach(function (id) { if (!document.getElementById(id)) { delete held[id]; } });
}
function setValue(box, text) {
  // React keeps its own idea of an input's value: the setter of the prototype goes past it.
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(box, text);
}

/* The list of runs. */
var known = null, picks = [];
function wire() {
  var place = document.getElementById("runs-grid"), grid = place && api("runs-grid");
  if (!place) { known = null; return; }
  if (!grid || known === grid || !grid.getDisplayedRowCount()) { if (!grid && !wire.again) { wire.again = setTimeout(function () { wire.again = 0; wire(); }, 60); } return; }
  known = grid;
  picks = gaptrace.params().getAll("pick");
  grid.addEventListener("selectionChanged", function (event) {
    if (event.source === "api" || event.source === "rowDataChanged") { return; }
    var now = grid.getSelectedNodes().map(function (n) { return n.data.id; });
    picks = picks.filter(function (id) { return now.indexOf(id) >= 0; }).concat(now.filter(function (id) { return picks.indexOf(id) < 0; }));
    gaptrace.put({pick: picks.length ? picks : null}, "replace");
    showPicks();
  });
  grid.addEventListener("sortChanged", function (event) {
    if (event.source !== "api") { gaptrace.put({sort: sortOf(grid)}, "replace"); }
  });
  grid.addEventListener("rowDataUpdated", restore);
  grid.addEventListener("cellKeyDown", function (event) {
    if (event.event.key === "Enter" && event.data.href) { gaptrace.go(event.data.href); }
  });
  restore();
}
function restore() {
  if (!known || !document.getElementById("runs-grid")) { return; }
  var query = gaptrace.params(), sort = query.get("sort"), box = document.getElementById("grid-filter");
  picks = query.getAll("pick");
  known.forEachNode(function (node) { var want = picks.indexOf(node.data.id) >= 0; if (!!node.isSelected() !== want) { node.setSelected(want); } });
  sortBy(known, sort);
  if (box && document.activeElement !== box) {
    setValue(box, query.get("q") || "");
    known.setGridOption("quickFilterText", query.get("q") || "");
  }
  showPicks();
}
function showPicks() {
  var button = document.getElementById("compare-button"), told = document.getElementById("picked");
  if (!button) { return; }
  button.disabled = picks.length < 2 || picks.length > 4;
  told.textContent = picks.length === 0 ? "pick two to four runs; the first is the baseline" :
    picks.length === 1 ? "one picked: the baseline" : picks.length > 4 ? "four at most" : picks.length + " picked; the first is the baseline";
}
function compare() {
  if (picks.length < 2 || picks.length > 4) { return; }
  gaptrace.go("/compare?" + picks.map(function (id) { return "run=" + encodeURIComponent(id); }).join("&"));
}
function row(by) {
  if (!known) { return; }
  var cell = known.getFocusedCell(), at = cell ? cell.rowIndex + by : 0;
  if (at < 0 || at >= known.getDisplayedRowCount()) { return; }
  known.ensureIndexVisible(at);
  known.setFocusedCell(at, "name");
}
gaptrace.pages.push({
  here: function () { return location.pathname === "/"; },
  appeared: function () { wire(); wireOthers(); },
  restore: function () { restore(); Object.keys(held).forEach(function (id) { restoreOther(id, held[id]); }); },
  keys: {
    "/": function () { var box = document.getElementById("grid-filter"); if (box) { box.focus(); } },
    j: function () { row(1); }, k: function () { row(-1); }, c: compare,
    x: function () {
      var cell = known && known.getFocusedCell(), node = cell && known.getDisplayedRowAtIndex(cell.rowIndex);
      if (node) { node.setSelected(!node.isSelected(), false, "spaceKey"); }
    }
  }
});
})();
