// Keeps the regions of a page that carry `data-refresh` up to date.

import { NOT_LOGGED_IN, call } from "./call.js";
import { picture, version } from "./live.js";
import { morph } from "./morph.js";
import "./times.js";

const SELDOM_MS = 10_000;
const LONGEST_MS = 10_000; // time limit for a response
const SILENT = "No response from the manager";

const pulse = document.getElementById("pulse");
let failedSince = null;

/** Requests `address`. Returns null without a response; shows in the page's head when the manager cannot be reached or hangs. */
export function ask(address) {
  const signal = AbortSignal.timeout(LONGEST_MS);
  return reach(address, { headers: { Accept: "text/html, application/json" }, cache: "no-store", signal });
}

/** Sends `body`, a text or something to be said as JSON, to `address`; else as `ask`. `type` is the media type of a text. */
export function send(address, body, { type = "text/plain; charset=utf-8" } = {}) {
  const text = typeof body === "string";
  const headers = { Accept: "text/html, application/json", "Content-Type": text ? type : "application/json" };
  return reach(address, { method: "POST", headers, body: text ? body : JSON.stringify(body), cache: "no-store" });
}

async function reach(address, options) {
  try {
    const answer = await call(address, options);
    tell(answer.status < 500 || answer.status === 503 ? "" : "The manager failed (its log says more)");
    return answer;
  } catch {
    tell(SILENT);
    return null;
  }
}

/**
 * Calls `step` repeatedly, `everyMs` after it has ended, as long as the page is visible and no dialog is open. While the
 * manager pushes changes, only after a change, and otherwise seldom, for data that depends on the time. `atOnce` is
 * for data that is not on the page yet.
 */
export function repeat(step, everyMs, { atOnce = false } = {}) {
  let seen = -1;
  let next = 0;
  const run = async () => {
    const due = picture() === null || version() !== seen || Date.now() >= next;
    if (due && !document.hidden && document.querySelector("dialog[open]") === null) {
      seen = version();
      next = Date.now() + SELDOM_MS;
      await attempt(step);
    }
    setTimeout(run, everyMs);
  };
  setTimeout(run, atOnce ? 0 : everyMs);
}

/** Calls `step`; when it fails, as with an answer that breaks off, the page's head says so, and the browser's console why. */
export async function attempt(step) {
  try {
    await step();
  } catch (error) {
    tell("The manager's answer could not be read");
    console.error(error);
  }
}

/** Shows `problem` in the page's head, and the time of the data shown; an empty `problem` clears it. */
function tell(problem) {
  if (problem === "") {
    failedSince = null;
    pulse.textContent = "";
    return;
  }
  failedSince ??= new Date();
  const text = `${problem}; this page shows data from ${failedSince.toLocaleTimeString()}`;
  if (pulse.textContent !== text) {
    pulse.textContent = text;
  }
}

/** Returns whether the response is a part of a page, including one that explains why it cannot be shown now, and not an unexpected failure. */
function isPart(answer) {
  const expected = answer.status < 500 || answer.status === 503;
  return expected && (answer.headers.get("Content-Type") ?? "").startsWith("text/html");
}

const shown = new WeakMap();

/** Reloads `region` from its address. */
export async function renew(region) {
  const address = region.dataset.refresh;
  const answer = await ask(address);
  if (answer === null || answer.status === NOT_LOGGED_IN || !isPart(answer)) {
    return; // the old content stays readable
  }
  const text = await answer.text();
  if (text === shown.get(region) || address !== region.dataset.refresh) {
    return; // also if another request was made meanwhile
  }
  shown.set(region, text);
  const made = document.createElement("template");
  made.innerHTML = text;
  document.dispatchEvent(new CustomEvent("refreshing", { detail: made.content }));
  morph(region, made.content);
}

function keepUp(region) {
  repeat(() => renew(region), Number(region.dataset.everyMs));
}

document.querySelectorAll("[data-refresh]").forEach(keepUp);
