// For browsers without modules, which would show nothing but a beginning: the page that needs no script.
(function () {
  var here = location.href.split("#")[0];
  if (here.indexOf("plain=1") < 0) location.replace(here + (here.indexOf("?") < 0 ? "?" : "&") + "plain=1");
})();
