// The panel beside a run: a step's page without its frame, kept up to date like any live section.

import { refresh, swap } from "./live.js";

let shown = "";
let opener = null;

export function startPanel() {
  document.addEventListener("click", onClick);
  document.addEventListener("afl:escape", close);
}

function panel() {
  return document.getElementById("step-panel");
}

function onClick(event) {
  if (event.target.closest("[data-close-panel]")) return close();
  const link = event.target.closest("[data-step]");
  if (!link || !panel() || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  opener = link;
  open(link.dataset.step);
}

async function open(path) {
  const aside = panel();
  const run = location.pathname.split("/")[2];
  const source = `/runs/${run}/step-part/${path.split("/").map(encodeURIComponent).join("/")}?panel=1`;
  const response = await fetch(source, { credentials: "same-origin" });
  if (!response.ok) return;
  shown = path;
  aside.dataset.live = `run:${decodeURIComponent(run)}`;
  aside.dataset.src = source;
  aside.dataset.every = "250";
  aside.replaceChildren();
  aside.hidden = false;
  aside.parentElement.classList.add("has-panel");
  swap(aside, await response.text());
  aside.scrollTop = 0;
  choose();
  aside.querySelector("[data-close-panel]")?.focus({ preventScroll: true });
  refresh(aside);
}

export function choose() {
  for (const node of document.querySelectorAll(".node")) node.classList.toggle("is-chosen", shown !== "" && node.dataset.id === shown);
}

function close() {
  const aside = panel();
  if (!aside || aside.hidden) return;
  aside.hidden = true;
  delete aside.dataset.live;
  delete aside.dataset.src;
  aside.parentElement.classList.remove("has-panel");
  shown = "";
  choose();
  if (opener?.isConnected) opener.focus({ preventScroll: true });
}
