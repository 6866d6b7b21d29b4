/* Before first paint: the stored theme, if there is one, and the word that scripts run. */
(function () {
  var root = document.documentElement;
  root.classList.add("js");
  try {
    var kept = localStorage.getItem("gaptrace-theme");
    if (kept === "light" || kept === "dark") { root.dataset.theme = kept; }
  } catch (refused) { /* a browser that keeps nothing still shows the report */ }
})();
