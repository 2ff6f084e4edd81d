// The log of a run: filtered while somebody types, and followed as long as they want.

import { refresh } from "./live.js";

const PAUSE = 250; // milliseconds without a key before the log is asked

export function startLog() {
  const form = document.querySelector("form[data-log]");
  if (!form) return;
  const section = document.querySelector("section[aria-label='Log']");
  for (const each of form.querySelectorAll("[data-without-scripts]")) each.hidden = true;
  for (const each of form.querySelectorAll("[data-with-scripts]")) each.hidden = false;
  let waiting = 0;
  form.addEventListener("input", (event) => {
    if (event.target.matches("[data-follow-log]")) return follow(section, event.target.checked);
    clearTimeout(waiting);
    waiting = setTimeout(() => filter(form, section), PAUSE);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    filter(form, section);
  });
  if (section.dataset.follow !== undefined) toEnd(section);
}

function filter(form, section) {
  const wanted = new URLSearchParams([...new FormData(form)].filter(([name, value]) => value && name !== "view"));
  const query = wanted.size ? `?${wanted}` : "";
  section.dataset.src = `${form.getAttribute("action")}/fragment/log${query}`;
  const download = form.querySelector("[data-download]");
  download.href = `${form.getAttribute("action")}/log.txt${query}`;
  wanted.set("view", "log");
  history.replaceState(null, "", `?${wanted}`);
  refresh(section);
}

function follow(section, isWanted) {
  if (isWanted) {
    section.dataset.follow = "";
    toEnd(section);
  } else delete section.dataset.follow;
}

function toEnd(section) {
  const box = section.querySelector("[data-scroll]");
  if (box) box.scrollTop = box.scrollHeight;
}
