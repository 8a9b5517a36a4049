// Keeps the regions of a page that carry `data-refresh` up to date.

import { NOT_LOGGED_IN, call } from "./call.js";
import { picture, version } from "./live.js";
import { morph } from "./morph.js";
import "./times.js";

const SELDOM_MS = 10_000;

const pulse = document.getElementById("pulse");
let failedSince = null;

/** Asks for `address`; says so in the page's head when the manager cannot be reached. Null when it cannot. */
export function ask(address) {
  return reach(address, { headers: { Accept: "text/html, application/json" }, cache: "no-store" });
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
    tell(answer.status < 500 || answer.status === 503);
    return answer;
  } catch {
    tell(false);
    return null;
  }
}

/**
 * Calls `step` again and again, `everyMs` after it has ended, as long as the page is visible and asks nothing. While the
 * manager tells by itself what changes, only when something has, and else seldom, for what time alone changes.
 */
export function repeat(step, everyMs) {
  let seen = -1;
  let next = 0;
  const run = async () => {
    const due = picture() === null || version() !== seen || Date.now() >= next;
    if (due && !document.hidden && document.querySelector("dialog[open]") === null) {
      seen = version();
      next = Date.now() + SELDOM_MS;
      await step();
    }
    setTimeout(run, everyMs);
  };
  setTimeout(run, everyMs);
}

function tell(reached) {
  if (reached) {
    failedSince = null;
    pulse.textContent = "";
  } else if (failedSince === null) {
    failedSince = new Date();
    pulse.textContent = `The manager does not answer; this is as of ${failedSince.toLocaleTimeString()}`;
  }
}

function keepUp(region) {
  let shown = null;
  repeat(async () => {
    const answer = await ask(region.dataset.refresh);
    if (answer === null || answer.status === NOT_LOGGED_IN) {
      return; // what is there stays to be read
    }
    const text = await answer.text();
    if (text === shown) {
      return;
    }
    shown = text;
    const made = document.createElement("template");
    made.innerHTML = text;
    document.dispatchEvent(new CustomEvent("refreshing", { detail: made.content }));
    morph(region, made.content);
  }, Number(region.dataset.everyMs));
}

document.querySelectorAll("[data-refresh]").forEach(keepUp);
