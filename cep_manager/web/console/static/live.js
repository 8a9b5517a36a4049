// Receives the page's data from the manager whenever it changes: one stream per page, from the address in `data-live`.
// Without a stream (too many pages are open, or a proxy blocks it) the page polls instead.

const TRY_AGAIN_MS = 30_000;

const address = document.querySelector("[data-live]")?.dataset.live;
let source = null;
let known = null;
let changes = 0;

/** The newest data sent by the manager; null without a stream, when the page must poll. */
export function picture() {
  return known;
}

/** A number that changes whenever the data has changed. */
export function version() {
  return changes;
}

function open() {
  if (source !== null || document.hidden) {
    return;
  }
  source = new EventSource(address);
  source.addEventListener("picture", (event) => show(JSON.parse(event.data)));
  source.addEventListener("change", (event) => show(merged(known, JSON.parse(event.data))));
  source.addEventListener("ended", again); // so it does when the manager is started again
  source.addEventListener("error", () => {
    known = null; // it may reconnect by itself; until then the page polls
    if (source?.readyState === EventSource.CLOSED) {
      again();
    }
  });
}

function again() {
  close();
  setTimeout(open, TRY_AGAIN_MS);
}

/** A hidden page uses no stream, since a browser allows only few connections to one server. */
function close() {
  source?.close();
  source = null;
  known = null;
}

function show(picture) {
  known = picture;
  changes += 1;
}

/** `target` with a JSON merge patch (RFC 7396) in it. */
function merged(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) {
    return patch;
  }
  const result = target !== null && typeof target === "object" && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) {
      delete result[name];
    } else {
      result[name] = merged(result[name] ?? null, value);
    }
  }
  return result;
}

if (address !== undefined) {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
}
