// Turns one piece of the page into another with as few changes as can be, so that focus, scrolling, selections and
// what somebody opened, chose or typed stay as they are.

const KEEP = "data-keep"; // an element with this is left alone; its own script draws it

export function morph(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from.hasAttribute(KEEP)) return;
  morphAttributes(from, to);
  if (!isBeingEdited(from)) morphChildren(from, to);
}

function isBeingEdited(element) {
  return element === document.activeElement && /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);
}

function morphAttributes(from, to) {
  for (const { name, value } of to.attributes) {
    if (isTheirs(from, name)) continue;
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !isTheirs(from, name)) from.removeAttribute(name);
  }
}

// What belongs to the person who looks: whether a detail is open, what stands in a field.
function isTheirs(element, name) {
  if (name === "open") return element.tagName === "DETAILS" || element.tagName === "DIALOG";
  if (name === "hidden") return element.hasAttribute("data-copy");
  return (name === "value" || name === "checked") && /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);
}

// Not `node.id`: a form with a field named "id" gives that field.
function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") || node.getAttribute("id") || "" : "";
}

function fits(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

function morphChildren(from, to) {
  const keyed = new Map();
  for (const child of from.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const key = keyOf(wanted);
    let match = null;
    // A parsed fragment has lost the blank before its first element; nothing may be taken for new because of that.
    if (wanted.nodeType === Node.ELEMENT_NODE) while (at && isBlank(at)) at = removed(at);
    if (key) match = keyed.get(key) ?? null;
    else if (at && fits(at, wanted)) match = at;
    if (match && fits(match, wanted)) {
      if (match === at) at = at.nextSibling;
      else from.insertBefore(match, at);
      morph(match, wanted);
    } else {
      from.insertBefore(document.importNode(wanted, true), at);
    }
  }
  while (at) at = removed(at);
}

function isBlank(node) {
  return node.nodeType === Node.TEXT_NODE && !node.nodeValue.trim();
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}
