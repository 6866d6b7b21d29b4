/* Tables in AG Grid: cell renderers, filters, CSV, and the list of runs with its picks. */
(function () {
"use strict";
var gaptrace = window.gaptrace, h = function () { return window.React.createElement.apply(null, arguments); };
var cells = window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {};
cells.GapName = function (props) {
  var whole = props.data[props.colDef.field + "_full"], full = whole || props.value || "", room = Math.max(Math.floor(props.column.getActualWidth() / 7.2) - 3, 8);
  return h("span", {title: full, className: whole ? "mono" : ""}, gaptrace.cut(props.value || "", room));
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
function asCsv(grid) {
  var columns = grid.getAllDisplayedColumns().map(function (c) { return c.getColDef(); }).filter(function (c) { return c.field; });
  var lines = [columns.map(function (c) { return c.headerName; })];
  grid.forEachNodeAfterFilterAndSort(function (node) {
    lines.push(columns.map(function (c) {
      var d = node.data, f = c.field;
      return f === "spark" ? (d.spark || []).join(" ") : d[f + "_full"] || (f + "_text" in d ? d[f + "_text"] : d[f]);
    }));
  });
  return gaptrace.csv(lines);
}
document.addEventListener("click", function (event) {
  var button = event.target.closest("button.csv");
  if (button) { var grid = api(button.dataset.grid); if (grid) { gaptrace.copy(asCsv(grid), button); } }
  if (event.target.id === "compare-button") { compare(); }
});
document.addEventListener("input", function (event) {
  var found = /^(.*-grid)-filter$/.exec(event.target.id), grid = found && api(found[1]);
  if (!found) { return; }
  if (grid) { grid.setGridOption("quickFilterText", event.target.value); }
  gaptrace.note(parameter(found[1], "filter"), event.target.value);
});

/* The address holds how each table is filtered and sorted: the list of runs as `q` and `sort`, a
   table behind a tab as `ID-filter` and `ID-sort`. */
var shown = {};
function parameter(id, what) { return id !== "runs-grid" ? id + "-" + what : what === "filter" ? "q" : what; }
function sortOf(grid) {
  var by = grid.getColumnState().filter(function (c) { return c.sort; })[0];
  return by ? (by.sort === "desc" ? "-" : "") + by.colId : null;
}
function sortBy(grid, text) {
  var state = text ? [{colId: text.replace(/^-/, ""), sort: text.charAt(0) === "-" ? "desc" : "asc"}] : [];
  grid.applyColumnState({state: state, defaultState: {sort: null}});
}
function setValue(box, text) {
  // React keeps its own idea of an input's value: the setter of the prototype goes past it.
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(box, text);
}
function restore(id) {
  var grid = shown[id], box = document.getElementById(id + "-filter");
  var want = gaptrace.get(parameter(id, "filter")) || "", sort = gaptrace.get(parameter(id, "sort"));
  if (box && document.activeElement !== box) {
    if (box.value !== want) { setValue(box, want); }
    grid.setGridOption("quickFilterText", want);
  }
  if (sortOf(grid) !== sort) { sortBy(grid, sort); }
  if (id === "runs-grid") { restorePicks(grid); }
}
function wire() {
  Object.keys(shown).forEach(function (id) { if (!document.getElementById(id)) { delete shown[id]; } });
  gaptrace.all(".gt-grid[id$='-grid']").forEach(function (place) {
    var id = place.id, grid = api(id);
    if (!grid) { clearTimeout(wire.again); wire.again = setTimeout(wire, 60); return; }
    if (grid.isDestroyed() || shown[id] === grid || !grid.getDisplayedRowCount()) { return; }
    shown[id] = grid;
    grid.addEventListener("sortChanged", function (event) {
      // What the address asked for needs no writing back.
      if (event.source !== "api") { gaptrace.note(parameter(id, "sort"), sortOf(grid)); }
    });
    if (id === "runs-grid") { wirePicks(grid); }
    restore(id);
  });
}

/* The list of runs. */
var picks = [];
function wirePicks(grid) {
  grid.addEventListener("selectionChanged", function (event) {
    if (event.source === "api" || event.source === "rowDataChanged") { return; }
    var now = grid.getSelectedNodes().map(function (n) { return n.data.id; });
    picks = picks.filter(function (id) { return now.indexOf(id) >= 0; }).concat(now.filter(function (id) { return picks.indexOf(id) < 0; }));
    gaptrace.put({pick: picks}, "replace");
    showPicks();
  });
  grid.addEventListener("rowDataUpdated", function () { restore("runs-grid"); });
  grid.addEventListener("cellKeyDown", function (event) {
    if (event.event.key === "Enter" && event.data.href) { gaptrace.go(event.data.href); }
  });
}
function restorePicks(grid) {
  picks = gaptrace.params().getAll("pick");
  grid.forEachNode(function (node) { var want = picks.indexOf(node.data.id) >= 0; if (!!node.isSelected() !== want) { node.setSelected(want); } });
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
  var grid = shown["runs-grid"], cell = grid && grid.getFocusedCell(), at = cell ? cell.rowIndex + by : 0;
  if (!grid || at < 0 || at >= grid.getDisplayedRowCount()) { return; }
  grid.ensureIndexVisible(at);
  grid.setFocusedCell(at, "name");
}
gaptrace.pages.push({
  here: function () { return location.pathname === "/"; },
  appeared: wire,
  restore: function () { Object.keys(shown).forEach(restore); },
  keys: {
    "/": function () { var box = document.getElementById("runs-grid-filter"); if (box) { box.focus(); } },
    j: function () { row(1); }, k: function () { row(-1); }, c: compare,
    x: function () {
      var grid = shown["runs-grid"], cell = grid && grid.getFocusedCell(), node = cell && grid.getDisplayedRowAtIndex(cell.rowIndex);
      if (node) { node.setSelected(!node.isSelected(), false, "spaceKey"); }
    }
  }
});
})();
