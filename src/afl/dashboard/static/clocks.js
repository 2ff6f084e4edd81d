// Times that pass: <time data-ago="ms"> and <span data-since="ms">, by the server's clock.

const ahead = Date.now() - Number(document.body.dataset.now || Date.now());
const HOUR = 3600000;
const SIZES = [[86400000, "d"], [HOUR, "h"], [60000, "min"], [1000, "s"]];

export function startClocks() {
  setInterval(() => document.hidden || tick(document), 1000);
}

export function tick(root) {
  const now = Date.now() - ahead;
  for (const each of root.querySelectorAll("[data-ago]")) write(each, ago(now - Number(each.dataset.ago)));
  for (const each of root.querySelectorAll("[data-since]")) write(each, duration(now - Number(each.dataset.since)));
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// What lies ahead has two words from an hour on: 8 h, rounded down, would be "in 7 h" at once.
function ago(away) {
  const span = Math.abs(away);
  for (const [index, [size, word]] of SIZES.entries()) {
    if (span < size) continue;
    const amount = `${Math.floor(span / size)} ${word}`;
    if (away > 0) return `${amount} ago`;
    const [smaller, unit] = SIZES[index + 1] ?? SIZES[index];
    const rest = size >= HOUR ? Math.floor((span % size) / smaller) : 0;
    return rest ? `in ${amount} ${rest} ${unit}` : `in ${amount}`;
  }
  return "now";
}

export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 100000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  const two = (number) => String(number).padStart(2, "0");
  if (minutes < 60) return `${minutes} min ${two(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${two(minutes % 60)} min` : `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
}
