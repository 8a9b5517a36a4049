// Follows the log of one or several processes: requests new records every second and appends them.
// Content of logs is inserted as text, never as HTML.

import { call } from "./call.js";
import { html } from "./elements.js";
import { repeat } from "./refresh.js";

const EVERY_MS = 1000;
const SEVERAL_EVERY_MS = 2000;
const AT_ONCE = 200;
const MOST_LINES = 3000;
const NEAR_END_PX = 40;
const TYPING_MS = 250;
const LONGEST_MS = 10_000; // time limit for a response

const area = document.getElementById("log");
const lines = document.getElementById("log-lines");
const older = document.getElementById("log-older");
const empty = document.getElementById("log-empty");
const down = document.getElementById("log-down");
const pauseButton = document.getElementById("log-pause");
const level = document.getElementById("log-level");
const contains = document.getElementById("log-contains");
const problems = document.getElementById("log-problems");
const one = "process" in area.dataset;

let place = ""; // position after which the next records start
let earliest = ""; // position before which earlier records end
let known = new Set(); // of several processes: records that are already shown
let paused = false;
let generation = 0; // counts up when another log is shown
let day = "";
let reading = false;
let typing = 0;

area.classList.toggle("of-one", one);
pauseButton.addEventListener("click", () => {
  paused = !paused;
  pauseButton.setAttribute("aria-pressed", String(paused));
  pauseButton.textContent = paused ? "Follow" : "Pause";
  if (paused) {
    tell("idle", "Paused");
  } else {
    step();
  }
});
document.getElementById("log-filter").addEventListener("submit", (event) => {
  event.preventDefault();
  begin();
});
level.addEventListener("change", begin);
contains.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(begin, TYPING_MS);
});
older.querySelector("button").addEventListener("click", readEarlier);
down.addEventListener("click", toEnd);
area.addEventListener("scroll", () => {
  down.hidden = atEnd();
});

begin();
repeat(step, one ? EVERY_MS : SEVERAL_EVERY_MS);

/** Reloads the log with the current filter, which is kept in the page's address. */
function begin() {
  const address = new URL(location.href);
  set(address, "level", level.value === "DEBUG" ? "" : level.value);
  set(address, "contains", contains.value);
  history.replaceState(null, "", address);
  generation += 1;
  place = earliest = day = "";
  known = new Set();
  reading = false;
  lines.replaceChildren();
  older.hidden = empty.hidden = true;
  problems.replaceChildren();
  tell("busy", "Reading…");
  step(true);
}

function set(address, name, value) {
  if (value) {
    address.searchParams.set(name, value);
  } else {
    address.searchParams.delete(name);
  }
}

function asked(more = {}) {
  const address = new URL(area.dataset.source, location.href);
  set(address, "level", level.value);
  set(address, "contains", contains.value);
  set(address, "limit", String(AT_ONCE));
  for (const [name, value] of Object.entries(more)) {
    set(address, name, value);
  }
  return address;
}

async function step(always = false) {
  if ((paused && always !== true) || reading) {
    return;
  }
  const mine = generation;
  reading = true;
  const told = await read(asked(one && place ? { after: place } : {}));
  if (mine !== generation) {
    return;
  }
  reading = false;
  if (told === null) {
    return;
  }
  if (one) {
    showPage(told);
    if (told.more && told.records.length && !paused && lines.childElementCount > AT_ONCE) {
      step(); // there are more new records than fit into one response
    }
  } else {
    showSearch(told);
  }
  empty.hidden = lines.childElementCount > 0;
  tell(paused ? "idle" : "good", paused ? "Paused" : "Following");
}

/** Returns the response; null on a failure, which is shown on the page. */
async function read(address) {
  let answer;
  try {
    const signal = AbortSignal.timeout(LONGEST_MS);
    answer = await call(address, { cache: "no-store", headers: { Accept: "application/json" }, signal });
  } catch {
    tell("bad", "No response from the manager");
    return null;
  }
  const told = await answer.json().catch(() => null);
  if (answer.ok && told !== null) {
    return told;
  }
  tell("bad", told?.code === "process-silent" ? "No response" : "Not read");
  problems.textContent = told?.message ?? `invalid response from the manager (${answer.status})`;
  return null;
}

function showPage(told) {
  problems.replaceChildren();
  const follows = atEnd();
  if (place === "") {
    earliest = told.previous;
  }
  if (told.restarted) {
    divide("The process was restarted");
  }
  if (told.lost) {
    divide(`${told.lost.toLocaleString()} records were discarded before they could be read`);
  }
  lines.append(...told.records.flatMap((record) => lineOf(record)));
  place = told.next;
  older.hidden = earliest === "";
  trim();
  if (follows) {
    toEnd();
  }
}

/** The newest records of several processes; those that are already shown are skipped. */
function showSearch(told) {
  const silent = told.answers.filter((answer) => !answer.answered);
  const missing = silent.map((answer) => html("p", "", `${answer.process.kind} ${answer.process.name} on ${answer.process.host}: ${answer.problem}`));
  if (told.left_out) {
    missing.push(html("p", "", `${told.left_out} more processes were left out; choose a plan or a process`));
  }
  problems.replaceChildren(...missing);
  const follows = atEnd();
  const fresh = told.records.filter((record) => !known.has(idOf(record)));
  if (known.size && fresh.length === told.records.length && told.more) {
    divide("There may be more records in between: choose a process to see all");
  }
  known = new Set([...known, ...fresh.map(idOf)].slice(-MOST_LINES));
  lines.append(...fresh.flatMap((record) => lineOf(record)));
  trim();
  if (follows) {
    toEnd();
  }
}

function idOf(record) {
  return `${record.process} ${record.sequence} ${record.time_ms}`;
}

async function readEarlier() {
  const mine = generation;
  const button = older.querySelector("button");
  button.disabled = true;
  const told = await read(asked({ before: earliest }));
  button.disabled = false;
  if (told === null || mine !== generation) {
    return;
  }
  earliest = told.previous;
  older.hidden = earliest === "";
  const height = area.scrollHeight;
  const today = day;
  day = "";
  lines.prepend(...told.records.flatMap((record) => lineOf(record)));
  day = today;
  area.scrollTop += area.scrollHeight - height;
}

/** The line of a record, after a line with the date for the first record of a day. */
function lineOf(record) {
  const moment = new Date(record.time_ms);
  const made = [];
  const itsDay = moment.toLocaleDateString(undefined, { weekday: "short", year: "numeric", month: "short", day: "numeric" });
  if (itsDay !== day) {
    day = itsDay;
    made.push(html("li", "log-break", itsDay));
  }
  const pad = (number, digits = 2) => String(number).padStart(digits, "0");
  const time = html("span", "log-time", `${pad(moment.getHours())}:${pad(moment.getMinutes())}:${pad(moment.getSeconds())}.${pad(moment.getMilliseconds(), 3)}`);
  time.title = moment.toISOString();
  const logger = html("span", "log-logger", ...marked(record.logger));
  logger.title = record.thread ? `thread ${record.thread}` : "";
  const text = html("span", "log-text", logger, ...marked(record.text));
  const line = html("li", "log-line", time, html("span", "log-level", record.level), ...(one ? [] : [processOf(record)]), text);
  line.dataset.level = record.level;
  if (record.traceback) {
    line.append(html("pre", "", ...marked(record.traceback)));
  }
  made.push(line);
  return made;
}

function processOf(record) {
  const link = html("a", "log-process", record.process);
  const address = new URL(area.dataset.page, location.href);
  address.searchParams.set("process", record.process);
  link.href = address;
  link.title = record.process;
  return link;
}

/** The text with matches of the search marked. */
function marked(text) {
  const sought = contains.value.toLowerCase();
  const lower = text.toLowerCase();
  if (!sought || lower.length !== text.length) {
    return [text];
  }
  const pieces = [];
  let from = 0;
  for (let at = lower.indexOf(sought); at >= 0; at = lower.indexOf(sought, from)) {
    pieces.push(text.slice(from, at), html("mark", "", text.slice(at, at + sought.length)));
    from = at + sought.length;
  }
  return [...pieces, text.slice(from)];
}

function divide(text) {
  lines.append(html("li", "log-break", text));
}

function trim() {
  let removed = false;
  while (lines.childElementCount > MOST_LINES) {
    lines.firstElementChild.remove();
    removed = true;
  }
  if (removed) {
    earliest = "";
    older.hidden = true;
  }
}

function atEnd() {
  return area.scrollHeight - area.scrollTop - area.clientHeight < NEAR_END_PX;
}

function toEnd() {
  area.scrollTop = area.scrollHeight;
  down.hidden = true;
}

function tell(tone, text) {
  const told = document.getElementById("log-told");
  told.className = `mark tone-${tone}`;
  if (told.textContent !== text) {
    told.textContent = text;
  }
}
