/* Open in Perfetto: the trace goes from this tab to Perfetto's by a message between windows; no
   server gets it, and the times to show stay behind the # of the address, which no server sees.

   A window that has just been opened hears nothing yet: it is asked PING until it answers PONG. */
(function () {
"use strict";
var ORIGIN = "https://ui.perfetto.dev", EVERY_MS = 100, PATIENCE_MS = 60000;

/* Resolves once the window listens; fails when it was closed or says nothing for a minute. */
function ready(other) {
  return new Promise(function (done, failed) {
    var since = Date.now(), knock;
    function heard(message) {
      if (message.source !== other || message.origin !== ORIGIN || message.data !== "PONG") { return; }
      end();
      done();
    }
    function end() { clearInterval(knock); window.removeEventListener("message", heard); }
    window.addEventListener("message", heard);
    knock = setInterval(function () {
      if (other.closed || Date.now() - since > PATIENCE_MS) { end(); failed(new Error("Perfetto did not answer")); return; }
      // To whoever is there: before its page has come the window is still at our own address.
      other.postMessage("PING", "*");
    }, EVERY_MS);
  });
}
document.addEventListener("click", function (event) {
  var button = event.target.closest(".perfetto"), main = document.getElementById("perfetto");
  if (!button || !main) { return; }
  var where = button.dataset.start ? "/#!/?visStart=" + button.dataset.start + "&visEnd=" + button.dataset.end : "";
  var other = window.open(ORIGIN + where);
  if (!other) { window.gaptrace.tell(button, "the browser blocked the new tab"); return; }
  var trace = fetch(main.dataset.trace).then(function (a) {
    if (!a.ok) { throw new Error("the trace file has gone"); }
    return a.arrayBuffer();
  });
  trace.catch(function () { other.close(); });
  Promise.all([trace, ready(other)]).then(function (got) {
    var about = {buffer: got[0], title: main.dataset.title, fileName: main.dataset.file};
    other.postMessage({perfetto: about}, ORIGIN, [got[0]]);
  }).catch(function (error) { window.gaptrace.tell(button, error.message); });
});
})();
