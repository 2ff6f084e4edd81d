// Live sections: <section data-live="run:01jd..." data-src="/runs/01jd.../fragment/tree">. When the topic changes the
// section is fetched again and changed in place. A section with data-live and no data-src only hears of it: the event
// `afl:change` is sent to it.

import { morph } from "./morph.js";
import { startSmallThings } from "./small.js";
import { tick } from "./clocks.js";
import { Topics } from "./topics.js";

const busy = new WeakMap(); // element -> whether it has to be fetched once more
let watch = null; // takes the topics of this page
let watched = "";
let isFirst = true; // this page was just made: what was over then (data-over) has not changed since
let leaving = new AbortController(); // aborted when the session ends: whatever is asked from then on is refused

export function startLive() {
  watch = sharedWatch();
  connect();
  document.addEventListener("submit", (event) => event.target.matches('form[action="/logout"]') && leave());
  // A hidden page watches nothing; it is fetched again when it is seen.
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) leaving = new AbortController(); // somebody went back: ask, and be refused
    connect();
  });
}

// The next page is on its way, and nothing on this one may call for another.
function leave() {
  disconnect();
  leaving.abort();
}

function topics() {
  const found = new Set([...document.querySelectorAll("[data-live]")].map((each) => each.dataset.live));
  return [...found].filter(Boolean).sort();
}

// The stream is shared by all pages, in a worker; where browsers have none (on some phones), each page has its own.
function sharedWatch() {
  if (typeof SharedWorker === "undefined") return ownWatch();
  const worker = new SharedWorker(new URL("./live_worker.js", import.meta.url), { type: "module", name: "afl-live" });
  worker.port.addEventListener("message", (event) => hear(event.data));
  worker.port.start();
  worker.addEventListener("error", () => {
    watch = ownWatch();
    watched = "";
    connect();
  });
  return (wanted) => worker.port.postMessage(wanted);
}

function ownWatch() {
  const own = new Topics();
  return (wanted) => own.watch(hear, wanted);
}

function connect() {
  const wanted = topics();
  const key = wanted.join("\n");
  if (!wanted.length || document.hidden || leaving.signal.aborted || watched === key) return;
  watched = key;
  watch(wanted);
}

function disconnect() {
  watched = "";
  watch([]);
}

function hear({ kind, topic }) {
  if (!watched) return; // it was on its way when this page stopped watching
  if (kind === "change") return refreshTopic(topic);
  if (kind === "lost") return show("lost", "reconnecting");
  if (kind === "leave") {
    leave();
    setTimeout(() => location.reload(), 500);
    return;
  }
  show("on", "live");
  refreshAll(isFirst ? "[data-live]:not([data-over])" : "[data-live]"); // what changed before we listened
  isFirst = false;
}

function show(state, text) {
  const shown = document.querySelector("[data-link-state]");
  if (!shown) return;
  shown.dataset.linkState = state;
  shown.lastElementChild.textContent = text;
}

function refreshAll(chosen) {
  for (const element of document.querySelectorAll(chosen)) refresh(element);
}

function refreshTopic(topic) {
  for (const element of document.querySelectorAll("[data-live]")) {
    if (element.dataset.live === topic) refresh(element);
  }
}

export async function refresh(element) {
  if (!element.dataset.src) {
    element.dispatchEvent(new CustomEvent("afl:change", { bubbles: true }));
    return;
  }
  if (busy.has(element)) {
    busy.set(element, true);
    return;
  }
  busy.set(element, false);
  try {
    await fetchInto(element);
    await rest(element);
  } finally {
    const again = busy.get(element);
    busy.delete(element);
    if (again && element.isConnected) refresh(element);
  }
}

// data-every: milliseconds between two looks, for what is costly to make.
function rest(element) {
  const every = Number(element.dataset.every ?? 0);
  return every ? new Promise((done) => setTimeout(done, every)) : null;
}

async function fetchInto(element) {
  const headers = { "X-Fragment": "1" };
  let response, html;
  try {
    response = await fetch(element.dataset.src, { headers, credentials: "same-origin", signal: leaving.signal });
    html = await response.text();
  } catch {
    return; // we leave; or the connection is gone: the event source says so and comes back
  }
  if (response.status === 401) return location.reload();
  if (response.ok && element.isConnected) swap(element, html);
}

export function swap(element, html) {
  const parsed = new DOMParser().parseFromString(html, "text/html").body;
  const follows = element.dataset.follow !== undefined && isAtEnd(element);
  const only = parsed.childElementCount === 1 ? parsed.firstElementChild : null;
  if (only && isWhole(only, element)) morph(element, only);
  else {
    const shell = element.cloneNode(false);
    shell.append(...parsed.childNodes);
    morph(element, shell);
  }
  startSmallThings(element);
  tick(element);
  if (follows) scrollToEnd(element);
  element.dispatchEvent(new CustomEvent("afl:swapped", { bubbles: true }));
  connect(); // new sections may have new topics
}

// A fragment is the section itself or what stands in it. One whose subject is over has no topic any more.
function isWhole(only, element) {
  const same = (name) => only.getAttribute(name) === element.getAttribute(name);
  return only.tagName === element.tagName && (same("data-live") || (element.ariaLabel !== null && same("aria-label")));
}

function scroller(element) {
  return element.querySelector("[data-scroll]") ?? element;
}

function isAtEnd(element) {
  const box = scroller(element);
  return box.scrollHeight - box.scrollTop - box.clientHeight < 24;
}

function scrollToEnd(element) {
  const box = scroller(element);
  box.scrollTop = box.scrollHeight;
}
