// Updates a part of the page to the server's new version, changing only what differs: focus, open menus, selected text
// and the scroll position are kept.

// Attributes that belong to the reader and to scripts, not to the server: its pages have no style attributes, which the
// content policy forbids.
const OWN = { DETAILS: ["open"], DIALOG: ["open"], TR: ["hidden"], LI: ["hidden"] };
const SCRIPTS_OWN = ["style"];

/** The children of `old` are like those of `made`, which is used up. */
export function morph(old, made) {
  const named = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  let at = old.firstChild;
  for (const next of [...made.childNodes]) {
    const found = next.id ? named.get(next.id) : at;
    if (!alike(found, next)) {
      old.insertBefore(next, at);
      continue;
    }
    if (found === at) {
      at = at.nextSibling;
    } else {
      old.insertBefore(found, at);
    }
    patch(found, next);
  }
  while (at !== null) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(one, other) {
  return Boolean(one) && one.nodeName === other.nodeName && (one.id ?? "") === (other.id ?? "");
}

function patch(old, made) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== made.data) {
      old.data = made.data;
    }
    return;
  }
  if (old.nodeName === "TIME") {
    if (old.dateTime !== made.dateTime) {
      old.replaceWith(made);
    }
    return;
  }
  const own = [...SCRIPTS_OWN, ...(OWN[old.nodeName] ?? [])];
  for (const { name, value } of made.attributes) {
    if (!own.includes(name) && old.getAttribute(name) !== value) {
      old.setAttribute(name, value);
    }
  }
  for (const { name } of [...old.attributes]) {
    if (!own.includes(name) && !made.hasAttribute(name)) {
      old.removeAttribute(name);
    }
  }
  morph(old, made);
}
