// Keys: / search, ? help, g and a letter to a section, j and k along the rows of a list.

let leader = false;

export function startKeys() {
  document.addEventListener("keydown", onKey);
  for (const button of document.querySelectorAll("[data-open-keys]")) {
    button.hidden = false;
    button.addEventListener("click", () => document.getElementById("keys").showModal());
  }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else document.dispatchEvent(new CustomEvent("afl:escape"));
    return;
  }
  if (typing || document.querySelector("dialog[open]")) return;
  const handled = leader ? go(event.key) : press(event.key);
  if (handled) event.preventDefault();
}

function go(key) {
  leader = false;
  const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
  if (link) location.href = link.href;
  return Boolean(link);
}

function press(key) {
  if (key === "/") {
    const search = document.querySelector("[data-search]") ?? document.getElementById("search");
    search?.focus();
    search?.select();
    return true;
  }
  if (key === "?") {
    document.getElementById("keys")?.showModal();
    return true;
  }
  if (key === "g") {
    leader = true;
    setTimeout(() => (leader = false), 1200);
    return true;
  }
  return (key === "j" || key === "k") && move(key === "j" ? 1 : -1);
}

function move(by) {
  const links = [...document.querySelectorAll("main [data-row]")].filter((each) => each.offsetParent !== null);
  if (!links.length) return false;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by));
  links[next].focus();
  return true;
}
