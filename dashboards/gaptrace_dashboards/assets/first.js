/* Before first paint: a theme that the address names wins over the stored one. */
(function () {
  var named = new URLSearchParams(location.search).get("theme");
  if (named === "light" || named === "dark") { document.documentElement.dataset.theme = named; }
})();
