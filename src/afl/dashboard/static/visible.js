// A hidden page gives its connection back: browsers open only six to one server.

// `open` makes an event source, or null when there is nothing more to hear.
export function whileVisible(open) {
  let source = null;
  const start = () => document.hidden || (source ??= open());
  const stop = () => {
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", start);
  start();
}
