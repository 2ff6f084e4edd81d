// Small conveniences: copy buttons, questions before actions, forms that send themselves, one submit per click, the
// theme, colors in JSON and AFL.

export function startSmallThings(root) {
  for (const button of root.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
  for (const [kind, token] of Object.entries(TOKENS))
    for (const block of root.querySelectorAll(`pre[data-${kind}]:not([data-painted])`)) paint(block, token);
  if (root === document) listen();
}

function listen() {
  document.addEventListener("click", onClick);
  document.addEventListener("submit", onSubmit);
  document.addEventListener("change", onChange);
  window.addEventListener("pageshow", (event) => event.persisted && release());
}

async function onClick(event) {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    event.preventDefault();
    await navigator.clipboard.writeText(copy.dataset.copy);
    copy.classList.add("copied");
    setTimeout(() => copy.classList.remove("copied"), 1200);
  }
  const theme = event.target.closest("[data-theme-switch]");
  if (theme) {
    event.preventDefault();
    switchTheme(theme);
  }
}

function switchTheme(button) {
  const order = ["auto", "light", "dark"];
  const root = document.documentElement;
  const chosen = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
  root.dataset.theme = chosen;
  document.cookie = `afl-theme=${chosen}; path=/; max-age=31536000; samesite=strict`;
  button.title = `Theme: ${chosen}`;
  button.lastElementChild.textContent = chosen[0].toUpperCase() + chosen.slice(1);
}

function onSubmit(event) {
  const form = event.target;
  const question = event.submitter?.dataset.confirm ?? form.dataset.confirm;
  if (question && !form.dataset.confirmed) {
    event.preventDefault();
    confirmFirst(form, event.submitter, question);
    return;
  }
  if (form.method === "post") {
    // The form's own values are read before this runs; a second click then finds the buttons asleep.
    setTimeout(() => form.querySelectorAll("button").forEach((each) => (each.disabled = true)));
    setTimeout(release, 4000);
  }
}

function release() {
  for (const each of document.querySelectorAll("form[method=post] button:disabled")) each.disabled = false;
}

function confirmFirst(form, submitter, question) {
  const dialog = document.createElement("dialog");
  const text = document.createElement("p");
  text.textContent = question;
  const buttons = document.createElement("form");
  buttons.method = "dialog";
  const no = document.createElement("button");
  no.textContent = "Back";
  const yes = document.createElement("button");
  yes.className = submitter?.className.includes("danger") ? "danger" : "primary";
  yes.textContent = form.dataset.yes || submitter?.textContent.trim() || "Do it";
  yes.value = "yes";
  buttons.append(no, yes);
  dialog.setAttribute("aria-label", question);
  dialog.append(text, buttons);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (dialog.returnValue !== "yes") return submitter?.focus();
    form.dataset.confirmed = "1";
    form.requestSubmit(submitter ?? undefined);
  });
  document.body.append(dialog);
  dialog.showModal();
  yes.focus();
}

function onChange(event) {
  const form = event.target.form;
  if (form?.dataset.send !== undefined && event.target.matches("select, input[type=checkbox]")) form.requestSubmit();
}

// Of each token: a key, a string, a keyword, a comment; what has no name is a number.
const TOKENS = {
  json: /(?<key>"(?:\\.|[^"\\])*"(?=\s*:))|(?<str>"(?:\\.|[^"\\])*")|(?<kw>\b(?:true|false|null)\b)|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g,
  afl: /(?<note>\/\*(?:[\s\S]*?\*\/|[\s\S]*)|\/\/[^\n]*)|(?<str>"(?:\\[\s\S]|[^"\\])*"?)|(?<kw>\b(?:namespace|uses?|event|facet|workflow|schema|implicit|prompt|andThen|foreach|repeat|limit|until|collect|in|not|when|case|default|catch|with|as|yield|true|false|null)\b)|(?<key>\$(?:\.\w+)+)|\b\d+(?:\.\d+)?\b/g,
};
const LONGEST = 40000;

// Colors are put in by text nodes: whatever stands in a value stays text.
function paint(block, pattern) {
  block.dataset.painted = "";
  const text = block.textContent;
  if (text.length > LONGEST) return;
  const out = document.createDocumentFragment();
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    out.append(text.slice(at, match.index));
    const token = document.createElement("span");
    token.className = Object.keys(match.groups).find((name) => match.groups[name]) ?? "nm";
    token.textContent = match[0];
    out.append(token);
    at = match.index + match[0].length;
  }
  out.append(text.slice(at));
  block.replaceChildren(out);
}
