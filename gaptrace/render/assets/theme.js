/* Before first paint: the theme that the address names, else the stored one, and the word that
   scripts run. */
(function () {
  var root = document.documentElement, kept = null, named = new URLSearchParams(location.search).get("theme");
  root.classList.add("js");
  try { kept = localStorage.getItem("gaptrace-theme"); } catch (refused) { /* nothing is kept */ }
  [kept, named].forEach(function (name) { if (name === "light" || name === "dark") { root.dataset.theme = name; } });
})();
