/* Sorting by a column, for tables of a report and of the dashboard. */
(function () {
"use strict";
function valueOf(cell) {
  if (!cell) { return ""; }
  return cell.hasAttribute("data-v") ? parseFloat(cell.getAttribute("data-v")) : cell.classList.contains("n") ? NaN : cell.textContent.toLowerCase();
}
/* Adds a button to each heading. Returns `order(column, up)`; a column of -1 is the order made.
   `chosen(column, up)` is told what a reader asks for. */
window.gaptraceSort = function (table, chosen) {
  var body = table.tBodies[0], rows = Array.from(body.rows);
  var heads = window.gaptrace.all("thead th", table);
  function order(column, up) {
    heads.forEach(function (th, i) {
      if (i === column) { th.setAttribute("aria-sort", up ? "ascending" : "descending"); } else { th.removeAttribute("aria-sort"); }
    });
    rows.map(function (row, i) { return [column < 0 ? i : valueOf(row.cells[column]), i, row]; }).sort(function (a, b) {
      if (a[0] !== a[0] || b[0] !== b[0]) { return (a[0] !== a[0]) - (b[0] !== b[0]) || a[1] - b[1]; }
      return (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (up ? 1 : -1) || a[1] - b[1];
    }).forEach(function (k) { body.appendChild(k[2]); });
  }
  heads.forEach(function (th, column) {
    var sort = window.gaptrace.button("", "", function () {
      var up = th.getAttribute("aria-sort") === "descending" || (!th.hasAttribute("aria-sort") && !th.classList.contains("n"));
      order(column, up);
      if (chosen) { chosen(column, up); }
    });
    sort.className = "sort";
    sort.setAttribute("aria-label", "sort by " + th.textContent);
    th.appendChild(sort);
  });
  return order;
};
})();
