// The graph of a run: it can be moved and made larger, groups fold in place, states change as they happen, and only what
// can be seen is drawn. Without this script it is a drawing that scrolls, with links.

import { choose } from "./panel.js";

const SMALLEST = 0.08;
const LARGEST = 2.5;
const TOOLS = 44; // the strip below the graph in which the buttons stand, so that they cover nothing
const LOWEST = 180;
const NARROW = 500; // a stage of less pixels has one box below the other
const MANY = 250; // from so many nodes on, those out of sight are left out

let view = { x: 0, y: 0, scale: 1 };
let touched = false; // somebody chose where to look; until then the graph finds its place by itself
let parts = null;
let fetching = false;
let again = false;

export function startGraph() {
  const box = document.querySelector("[data-graph]");
  if (!box) return;
  attach(box);
  box.addEventListener("afl:change", updateStates);
  box.addEventListener("click", onClick);
  if (parts.stage.clientWidth < NARROW && box.dataset.narrow === undefined) narrow();
}

// The same graph for a narrow screen. The address stays: it may be opened on another one.
async function narrow() {
  const url = new URL(location.href);
  url.searchParams.set("narrow", "1");
  const made = await fetched(url);
  if (!made) return;
  replace(made);
  choose();
}

async function fetched(url) {
  const response = await fetch(`${url.pathname}/fragment/graph${url.search}`, { credentials: "same-origin" });
  if (!response.ok) return null;
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-graph]");
  return document.importNode(parsed, true);
}

function replace(made) {
  parts.box.replaceWith(made);
  attach(made);
  made.addEventListener("afl:change", updateStates);
  made.addEventListener("click", onClick);
}

function attach(box) {
  const svg = box.querySelector("svg.graph");
  const stage = box.querySelector(".graph-scroll");
  parts = { box, svg, stage, canvas: svg.querySelector(".canvas"), nodes: [...svg.querySelectorAll(".node")], size: [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height] };
  parts.places = new Map(parts.nodes.map((node) => [node.dataset.id, { node, box: rect(node) }]));
  svg.removeAttribute("viewBox");
  svg.setAttribute("width", "100%");
  svg.setAttribute("height", "100%");
  box.classList.add("is-moved");
  for (const button of box.querySelectorAll("[data-zoom]")) button.hidden = false;
  stage.addEventListener("wheel", onWheel, { passive: false });
  stage.addEventListener("pointerdown", onPress);
  stage.addEventListener("keydown", onKey);
  stage.addEventListener("focusin", (event) => event.target.closest(".node") && reveal(event.target.closest(".node")));
  let width = 0;
  const settled = new ResizeObserver(() => {
    const isWider = width !== stage.clientWidth;
    width = stage.clientWidth;
    if (isWider) size();
    if (touched) draw();
    else first();
  });
  settled.observe(stage);
  size();
  first();
}

function rect(node) {
  const [x, y] = node.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
  const shape = node.querySelector(".shape");
  return { x, y, width: Number(shape.getAttribute("width")), height: Number(shape.getAttribute("height")) };
}

// At first the width fits, as far as it can be read, and the top is shown: a graph is read downwards.
function firstScale() {
  const { clientWidth } = parts.stage;
  return Math.min(1, Math.max(clientWidth / parts.size[0], clientWidth < NARROW ? 0.7 : 0.5));
}

// The stage is as high as its graph, up to what its style allows: a small graph leaves no empty field.
function size() {
  parts.stage.style.height = `${Math.max(LOWEST, Math.ceil(parts.size[1] * firstScale()) + TOOLS)}px`;
}

function first() {
  const { clientWidth, clientHeight } = parts.stage;
  const [width, height] = parts.size;
  const scale = firstScale();
  view = { scale, x: (clientWidth - width * scale) / 2, y: Math.max(0, (clientHeight - TOOLS - height * scale) / 2) };
  if (width * scale > clientWidth) view.x = clientWidth < NARROW ? 0 : Math.min(0, view.x);
  draw();
}

function fit() {
  const { clientWidth, clientHeight } = parts.stage;
  const [width, height] = parts.size;
  const room = clientHeight - TOOLS;
  const scale = Math.max(SMALLEST, Math.min(1.2, clientWidth / width, room / height));
  view = { scale, x: (clientWidth - width * scale) / 2, y: (room - height * scale) / 2 };
  draw();
}

let waiting = 0;

function draw() {
  if (waiting || !parts) return;
  waiting = requestAnimationFrame(() => {
    waiting = 0;
    parts.box.classList.toggle("is-whole", isWhole());
    parts.canvas.setAttribute("transform", `translate(${view.x.toFixed(1)} ${view.y.toFixed(1)}) scale(${view.scale.toFixed(4)})`);
    if (parts.nodes.length >= MANY) cull();
  });
}

// Nothing of it is above or below: then the wheel, and a finger, move the page as they do elsewhere.
function isWhole() {
  return view.y >= -1 && view.y + parts.size[1] * view.scale <= parts.stage.clientHeight + 1;
}

function cull() {
  const left = -view.x / view.scale;
  const top = -view.y / view.scale;
  const right = left + parts.stage.clientWidth / view.scale;
  const bottom = top + parts.stage.clientHeight / view.scale;
  for (const { node, box } of parts.places.values()) {
    const seen = box.x < right && box.x + box.width > left && box.y < bottom && box.y + box.height > top;
    node.classList.toggle("is-away", !seen && !node.contains(document.activeElement));
  }
}

function zoom(factor, at) {
  touched = true;
  const { clientWidth, clientHeight } = parts.stage;
  const [x, y] = at ?? [clientWidth / 2, clientHeight / 2];
  const scale = Math.min(LARGEST, Math.max(SMALLEST, view.scale * factor));
  view = { scale, x: x - (x - view.x) * (scale / view.scale), y: y - (y - view.y) * (scale / view.scale) };
  draw();
}

function move(dx, dy) {
  touched = true;
  view = { ...view, x: view.x + dx, y: view.y + dy };
  draw();
}

function onWheel(event) {
  const zooms = event.ctrlKey || event.metaKey;
  if (!zooms && !hasMore(event.deltaX, event.deltaY)) return;
  event.preventDefault();
  if (zooms) {
    const box = parts.stage.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0025), [event.clientX - box.left, event.clientY - box.top]);
  } else move(-event.deltaX, -event.deltaY);
}

// Whether there is more of the graph where the wheel turns to; at its end the page scrolls.
function hasMore(dx, dy) {
  const { clientWidth, clientHeight } = parts.stage;
  const [width, height] = parts.size.map((each) => each * view.scale);
  if (Math.abs(dx) > Math.abs(dy)) return dx < 0 ? view.x < 0 : view.x + width > clientWidth;
  return dy < 0 ? view.y < 0 : view.y + height > clientHeight - TOOLS;
}

const fingers = new Map();

function onPress(event) {
  if (event.button !== 0) return;
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
  if (fingers.size > 1) return;
  let moved = false;
  const onMove = (next) => {
    const before = fingers.get(next.pointerId);
    if (!before) return;
    const spread = distance();
    fingers.set(next.pointerId, [next.clientX, next.clientY]);
    if (fingers.size > 1) return pinch(spread);
    const dx = next.clientX - before[0];
    const dy = next.clientY - before[1];
    if (!moved && Math.hypot(next.clientX - event.clientX, next.clientY - event.clientY) < 5) return fingers.set(next.pointerId, before);
    moved = true;
    parts.box.classList.add("is-moving");
    move(dx, dy);
  };
  const onEnd = (last) => {
    fingers.delete(last.pointerId);
    if (fingers.size) return;
    window.removeEventListener("pointermove", onMove);
    window.removeEventListener("pointerup", onEnd);
    window.removeEventListener("pointercancel", onEnd);
    parts.box.classList.remove("is-moving");
    if (moved) window.addEventListener("click", (click) => (click.preventDefault(), click.stopPropagation()), { capture: true, once: true });
  };
  window.addEventListener("pointermove", onMove);
  window.addEventListener("pointerup", onEnd);
  window.addEventListener("pointercancel", onEnd);
}

function distance() {
  const [a, b] = [...fingers.values()];
  return a && b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0;
}

function pinch(before) {
  const box = parts.stage.getBoundingClientRect();
  const [a, b] = [...fingers.values()];
  if (before > 0) zoom(distance() / before, [(a[0] + b[0]) / 2 - box.left, (a[1] + b[1]) / 2 - box.top]);
}

function onKey(event) {
  const step = 60;
  const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (moves[event.key]) move(...moves[event.key]);
  else if (event.key === "+" || event.key === "=") zoom(1.25);
  else if (event.key === "-") zoom(0.8);
  else if (event.key === "0") fit();
  else return;
  event.preventDefault();
}

// A node that is reached by the keyboard comes into sight.
function reveal(node) {
  const { box } = parts.places.get(node.dataset.id);
  const { clientWidth, clientHeight } = parts.stage;
  parts.stage.scrollTo(0, 0);
  const x = box.x * view.scale + view.x;
  const y = box.y * view.scale + view.y;
  const room = 20;
  const dx = x < room ? room - x : Math.min(0, clientWidth - room - (x + Math.min(box.width * view.scale, clientWidth - 2 * room)));
  const dy = y < room ? room - y : Math.min(0, clientHeight - TOOLS - (y + Math.min(box.height * view.scale, clientHeight - 2 * room)));
  if (dx || dy) move(dx, dy);
}

function onClick(event) {
  const button = event.target.closest("[data-zoom]");
  if (button) return button.dataset.zoom === "fit" ? fit() : zoom(button.dataset.zoom === "in" ? 1.25 : 0.8);
  const toggle = event.target.closest("[data-toggle]");
  if (!toggle || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  fold(toggle);
}

// The graph with another group open or folded; the group stays where it is on the screen.
async function fold(toggle) {
  const id = toggle.dataset.toggle;
  const url = new URL(toggle.href.baseVal ?? toggle.href, location.href);
  const made = await fetched(url);
  if (!made) return;
  const before = parts.places.get(id)?.box;
  const kept = { ...view };
  replace(made);
  url.searchParams.delete("narrow");
  history.replaceState(null, "", url);
  const after = parts.places.get(id)?.box;
  touched = true;
  view = kept;
  if (before && after) view = { ...kept, x: kept.x + (before.x - after.x) * kept.scale, y: kept.y + (before.y - after.y) * kept.scale };
  draw();
  choose();
  parts.places.get(id)?.node.querySelector("[data-toggle]")?.focus({ preventScroll: true });
}

async function updateStates() {
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  try {
    const response = await fetch(parts.box.dataset.states, { headers: { "X-Fragment": "1" }, credentials: "same-origin" });
    if (response.ok) apply(await response.json());
  } finally {
    setTimeout(() => {
      fetching = false;
      if (again) {
        again = false;
        updateStates();
      }
    }, parts.nodes.length >= MANY ? 300 : 120);
  }
}

const TONES = ["done", "failed", "running", "waiting", "caught", "paused", "ended", "idle"];

function apply(found) {
  for (const [id, tone, state, count, bar] of found.nodes) {
    const node = parts.places.get(id)?.node;
    if (!node) continue;
    if (!node.classList.contains(tone)) {
      node.classList.remove(...TONES);
      node.classList.add(tone);
    }
    const text = node.querySelector("[data-count]");
    if (text && text.textContent !== count) text.textContent = count;
    const share = node.querySelector("[data-bar]");
    if (share) paintBar(share, bar);
    const link = node.querySelector(".open-step");
    if (link) link.setAttribute("aria-label", link.getAttribute("aria-label").split(", ").slice(0, 1).concat(state, count || []).join(", "));
  }
}

function paintBar(share, bar) {
  const key = JSON.stringify(bar);
  if (share.dataset.key === key) return;
  share.dataset.key = key;
  share.replaceChildren(
    ...bar.map(([tone, at, width]) => {
      const part = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      part.setAttribute("class", tone);
      part.setAttribute("x", `${at}%`);
      part.setAttribute("width", `${width}%`);
      part.setAttribute("height", "3");
      return part;
    }),
  );
}
