// Lines that come: <ol data-stream="/fleet/runs/.../lines?after=17">. The server sends them as HTML, escaped; they are
// added at the end, and the oldest ones go when there are too many. While somebody reads further up, it stays there.

import { whileVisible } from "./visible.js";

const MOST = 2000;

for (const list of document.querySelectorAll("[data-stream]")) start(list);

function start(list) {
  const box = document.querySelector("[data-follow-switch]");
  const follow = box?.querySelector("input");
  if (box) box.hidden = false;
  toEnd(list);
  list.addEventListener("scroll", () => follow && (follow.checked = isAtEnd(list)));
  follow?.addEventListener("change", () => follow.checked && toEnd(list));
  if (list.dataset.streamOver !== undefined) return;
  const address = new URL(list.dataset.stream, location.href);
  whileVisible(() => {
    const source = new EventSource(address);
    source.addEventListener("append", (event) => {
      address.searchParams.set("after", event.lastEventId); // where the next one begins
      append(list, JSON.parse(event.data), follow?.checked ?? true);
    });
    return source;
  });
}

function append(list, html, follows) {
  const parsed = new DOMParser().parseFromString(`<ol>${html}</ol>`, "text/html").querySelector("ol");
  for (const line of [...parsed.children]) {
    line.classList.add("fresh");
    list.append(line);
  }
  while (list.children.length > MOST) list.firstElementChild.remove();
  document.querySelector("[data-stream-empty]")?.setAttribute("hidden", "");
  if (follows) toEnd(list);
}

function isAtEnd(list) {
  return list.scrollHeight - list.scrollTop - list.clientHeight < 24;
}

function toEnd(list) {
  list.scrollTop = list.scrollHeight;
}
