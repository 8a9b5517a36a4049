// Shows times of day in the reader's own zone, with UTC on hover; also in content added by scripts or refreshed regions.
//
//   <time datetime="2026-01-31T12:00:05Z">2026-01-31 12:00:05 UTC</time>                 the moment
//   <time datetime="2026-01-31T12:00:05Z" data-relative>2026-01-31 12:00:05 UTC</time>   how long ago that is

const ROUNDS_MS = 10_000; // interval at which relative times are updated
const STEPS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];
const MOMENT = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" };

/** `2 min ago`, for a Date. */
export function ago(moment, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - moment.getTime()) / 1000));
  const [size, name] = STEPS.find(([step]) => seconds >= step) ?? STEPS.at(-1);
  return `${Math.floor(seconds / size)} ${name} ago`;
}

/** A `time` element for a moment in milliseconds since 1970. */
export function timeElement(epochMs, relative = false) {
  const made = document.createElement("time");
  made.dateTime = new Date(epochMs).toISOString();
  made.textContent = utc(new Date(epochMs));
  made.toggleAttribute("data-relative", relative);
  return made;
}

function utc(moment) {
  return moment.toISOString().replace("T", " ").replace(/(\.000)?Z$/, " UTC");
}

function show(time) {
  const moment = new Date(time.dateTime);
  if (Number.isNaN(moment.getTime())) {
    return;
  }
  const relative = "relative" in time.dataset;
  if (!time.title) {
    time.title = relative ? `${moment.toLocaleString(undefined, MOMENT)} · ${utc(moment)}` : utc(moment);
    time.textContent = relative ? ago(moment) : moment.toLocaleString(undefined, MOMENT);
  } else if (relative) {
    time.textContent = ago(moment);
  }
}

/** All times in `root` are in the reader's own zone. */
export function localTimes(root) {
  root.querySelectorAll("time[datetime]").forEach(show);
}

localTimes(document);
setInterval(() => document.querySelectorAll("time[data-relative]").forEach(show), ROUNDS_MS);
new MutationObserver((changes) => {
  for (const change of changes) {
    for (const added of change.addedNodes) {
      if (added instanceof Element) {
        localTimes(added.parentElement ?? added);
      }
    }
  }
}).observe(document.body, { childList: true, subtree: true });
