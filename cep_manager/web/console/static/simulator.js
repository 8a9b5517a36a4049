// Sends events into a stream: one from a form, or those of a file at a rate, as long as the page is open.

import { call } from "./call.js";
import { send } from "./refresh.js";
import { eventsOf, generate } from "./try_events.js";

const WAIT_MS = 1000; // before refused events are sent again
const PACE_MS = 100; // shortest interval between two requests of a feed
const MOST_AT_ONCE = 2000;
const PASSING = new Set(["no-room", "over-limit", "leaving", "inactive"]);

const simulator = document.getElementById("simulator");
const attributes = JSON.parse(simulator.dataset.attributes);

// ---- one event -----------------------------------------------------------------------------------------------------------

const single = document.getElementById("single");
single.addEventListener("submit", async (submitted) => {
  submitted.preventDefault();
  const event = Object.fromEntries([...single.querySelectorAll("[data-name]")].map((field) => [field.dataset.name, typed(field)]));
  const time = document.getElementById("field-time")?.value; // an attribute may be called as the time is
  if (time) {
    event._timestamp = Date.parse(`${time}Z`);
  }
  tell("single-told", "busy", "Sending…");
  const answer = await post([event]);
  tell("single-told", answer.ok ? "good" : "bad", answer.ok ? `Accepted by ${answer.told.worker} at ${new Date().toLocaleTimeString()}` : answer.text);
});

document.getElementById("single-example").addEventListener("click", () => {
  const [{ data }] = generate({ name: "", attributes }, 1).map((written) => JSON.parse(written));
  for (const field of single.querySelectorAll("[data-name]")) {
    const value = data[field.dataset.name];
    field.value = field.dataset.type === "object" ? "" : String(value);
  }
});

function typed(field) {
  const written = field.value;
  switch (field.dataset.type) {
    case "bool":
      return written === "" ? null : written === "true";
    case "string":
      return written;
    case "object":
      return written === "" ? null : written;
    default:
      return written.trim() === "" ? null : new Whole(written.trim());
  }
}

/** A number as it was written: JavaScript's own cannot hold every long. */
class Whole {
  constructor(text) {
    this.text = text;
  }
}

// ---- a file of events --------------------------------------------------------------------------------------------------------

const feedForm = document.getElementById("feed");
const progress = document.getElementById("feed-progress");
const [startButton, pauseButton, stopButton] = ["feed-start", "feed-pause", "feed-stop"].map((id) => document.getElementById(id));
let feed = null; // {events, sent, paused, stopped}

feedForm.addEventListener("submit", async (submitted) => {
  submitted.preventDefault();
  const [file] = document.getElementById("feed-file").files;
  let events;
  startButton.disabled = true; // until this file is read, and then until it is sent: else it would be sent twice
  tell("feed-told", "busy", `Reading ${file.name}…`);
  try {
    events = /\.parquet$/i.test(file.name) ? await fromParquet(file) : eventsOf(file.name, await file.text(), { attributes });
  } catch (error) {
    const reason = error instanceof FileError ? error.message : "it must be CSV with a header line, JSON objects, one per line, or Parquet";
    tell("feed-told", "bad", `${file.name} cannot be read: ${reason}.`);
    startButton.disabled = false;
    return;
  }
  feed = { events, sent: 0, paused: false, stopped: false };
  run(feed);
});
pauseButton.addEventListener("click", () => {
  feed.paused = !feed.paused;
  pauseButton.textContent = feed.paused ? "Resume" : "Pause";
  report(feed, feed.paused ? "Paused" : "Sending");
});
stopButton.addEventListener("click", () => {
  feed.stopped = true;
});

class FileError extends Error {}

/** The events of a Parquet file, which the manager reads, as lines of JSON. Throws FileError with the manager's words. */
async function fromParquet(file) {
  let answer;
  let text;
  try {
    answer = await call(simulator.dataset.parquet, {
      method: "POST",
      headers: { Accept: "application/x-ndjson, application/json", "Content-Type": "application/vnd.apache.parquet" },
      body: file,
    });
    text = await answer.text();
  } catch {
    throw new FileError("no response from the manager, which reads Parquet files");
  }
  if (!answer.ok) {
    throw new FileError(messageOf(text) ?? `the manager, which reads Parquet files, answered ${answer.status}`);
  }
  return text.split("\n").filter(Boolean);
}

function messageOf(text) {
  try {
    return JSON.parse(text).message;
  } catch {
    return undefined;
  }
}

async function run(mine) {
  running(true);
  progress.max = Math.max(1, mine.events.length);
  let due = 0; // number of events due by now
  let before = performance.now();
  while (mine.sent < mine.events.length && !mine.stopped) {
    await pause(PACE_MS);
    const now = performance.now();
    const rate = Math.max(0.1, Number(document.getElementById("feed-rate").value) || 0.1);
    due = mine.paused ? 0 : Math.min(due + ((now - before) / 1000) * rate, MOST_AT_ONCE);
    before = now;
    const count = Math.floor(due);
    if (count > 0 && !(await sendSome(mine, count))) {
      break;
    }
    due -= count;
  }
  running(false);
  if (mine.sent === mine.events.length) {
    report(mine, "Done", "good");
  } else if (mine.stopped) {
    report(mine, "Stopped", "idle");
  }
}

/** True when the next `count` events have been accepted; waits while there is no room for them. */
async function sendSome(mine, count) {
  const some = mine.events.slice(mine.sent, mine.sent + count);
  while (!mine.stopped) {
    const answer = await post(some);
    if (answer.ok) {
      mine.sent += some.length;
      report(mine, mine.paused ? "Paused" : "Sending");
      return true;
    }
    if (!PASSING.has(answer.told?.details?.code)) {
      tell("feed-told", "bad", `After ${mine.sent} events: ${answer.text}`);
      return false;
    }
    tell("feed-told", "wait", `${answer.text}; retrying`);
    await pause(WAIT_MS);
  }
  return false;
}

function report(mine, what, tone = "busy") {
  progress.value = mine.sent;
  tell("feed-told", tone, `${what}: ${mine.sent.toLocaleString("en")} of ${mine.events.length.toLocaleString("en")} events sent`);
}

function running(on) {
  startButton.disabled = on;
  pauseButton.disabled = stopButton.disabled = !on;
  pauseButton.textContent = "Pause";
  progress.hidden = false;
}

// ---- both ------------------------------------------------------------------------------------------------------------------

async function post(events) {
  const answer = await send(simulator.dataset.send, events.map(line).join("\n"), { type: "application/x-ndjson" });
  if (answer === null) {
    return { ok: false, text: "no response from the manager", told: null };
  }
  const told = await answer.json().catch(() => null);
  if (told === null) {
    return { ok: false, text: `invalid response from the manager (${answer.status})`, told };
  }
  return { ok: answer.ok, told, text: answer.ok ? "" : reasonOf(told) };
}

function line(event) {
  if (typeof event === "string") {
    return event;
  }
  const numbers = [];
  const text = JSON.stringify(event, (_, content) => {
    if (content instanceof Whole) {
      numbers.push(content.text);
      return `\u0000${numbers.length - 1}`;
    }
    return content;
  });
  return numbers.length ? text.replace(/"\\u0000(\d+)"/g, (_, at) => numbers[at]) : text;
}

function reasonOf(told) {
  const [first] = told.details?.problems ?? [];
  return first ? `${told.message}: ${[first.attribute, first.problem].filter(Boolean).join(" ")}` : told.message;
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function tell(id, tone, text) {
  const told = document.getElementById(id);
  told.className = `mark tone-${tone}`;
  told.textContent = text;
}
