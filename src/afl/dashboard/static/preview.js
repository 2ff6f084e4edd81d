// When a cron expression would fire, while it is written: the page asks the server shortly after each change.

const PAUSE_MS = 200;
const shown = document.querySelector("[data-preview]");
const cron = document.getElementById("cron");
const zone = document.getElementById("zone");
let timer = 0;
let latest = 0;

if (shown && cron && zone) {
  for (const field of [cron, zone]) field.addEventListener("input", soon);
  for (const link of document.querySelectorAll("[data-fill]")) link.addEventListener("click", fill);
}

function fill(event) {
  event.preventDefault();
  cron.value = event.currentTarget.dataset.fill;
  soon();
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(look, PAUSE_MS);
}

async function look() {
  const number = ++latest;
  const query = new URLSearchParams({ cron: cron.value, zone: zone.value });
  const response = await fetch(`${shown.dataset.preview}?${query}`, { credentials: "same-origin" });
  if (!response.ok || number !== latest) return;
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html").body;
  shown.replaceChildren(...parsed.childNodes);
  cron.setAttribute("aria-invalid", String(Boolean(shown.querySelector(".problem"))));
}
