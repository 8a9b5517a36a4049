// Charts of what a plan did over time: lines with a cursor that the mouse and the arrow keys move.

import { ask, attempt, repeat } from "./refresh.js";
import { html } from "./elements.js";
import { short } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 144;
const LEFT = 52; // room for the numbers of the axis
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 20;
const TICKS = 4;
const GAP = 24; // between charts, and the least width of one: as the style sheet has them
const NARROWEST = 320;
const DAY_MS = 86_400_000;

const CHARTS = [
  { title: "Events", unit: "/s", lines: [["received", "in"], ["emitted", "out"]] },
  { title: "Latency", unit: "ms", lines: [["latency_p50", "p50"], ["latency_p99", "p99"]] },
  { title: "Capacity", unit: "%", scale: 100, most: 100, lines: [["capacity", "busiest instance"]] },
  { title: "State", unit: "rows", lines: [["state_rows", "held"]] },
  { title: "Queue", unit: "events", lines: [["queue", "waiting"]] },
];

const place = document.getElementById("history");
const range = document.getElementById("history-range");
const told = document.getElementById("history-told");

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** The charts with their lines filled in; null when the manager does not provide them. */
async function read() {
  const wanted = CHARTS.flatMap((chart) => chart.lines.map(([metric]) => metric));
  const address = new URL(place.dataset.source, location.href);
  address.searchParams.set("from", `-${range.value}`);
  const answers = await Promise.all(
    wanted.map((metric) => {
      const one = new URL(address);
      one.searchParams.set("metric", metric);
      return ask(one);
    }),
  );
  if (answers.some((answer) => answer === null || !answer.ok)) {
    return null;
  }
  const histories = await Promise.all(answers.map((answer) => answer.json()));
  return new Map(histories.map((history) => [history.metric, history]));
}

/** The least of 1, 2, 5, 10, 20, … that is not below `value`. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((bound) => bound >= value * 0.9999);
}

function figure(number) {
  if (number === null) {
    return "–";
  }
  return number < 100 && !Number.isInteger(number) ? String(Number(number.toPrecision(3))) : short(number);
}

function clock(atMs, spanMs) {
  const form = { hour: "2-digit", minute: "2-digit" };
  return new Date(atMs).toLocaleString(undefined, spanMs > DAY_MS ? { ...form, month: "short", day: "numeric" } : form);
}

/** The parts of a line where something is known, as path data. */
function path(points, x, y) {
  let pen = "M";
  let drawn = "";
  for (const [atMs, value] of points) {
    if (value === null) {
      pen = "M";
    } else {
      // A single point would be invisible; a line of length 0 with round caps is visible.
      drawn += pen === "M" ? `M${x(atMs)} ${y(value)}h0` : `L${x(atMs)} ${y(value)}`;
      pen = "L";
    }
  }
  return drawn;
}

function draw(chart, histories) {
  const scale = chart.scale ?? 1;
  const lines = chart.lines.map(([metric, name]) => ({
    name,
    points: histories.get(metric).points.map(([atMs, value]) => [atMs, value === null ? null : value * scale]),
  }));
  const known = lines.flatMap((line) => line.points.map(([, value]) => value)).filter((value) => value !== null);
  const keys = lines.map((line, index) => {
    const sample = svg("svg", { viewBox: "0 0 24 10", "aria-hidden": "true" }, svg("path", { d: "M0 5H24", class: `line line-${index}` }));
    const text = html("span", "");
    return { text, element: html("span", "key", sample, text) };
  });
  const caption = html("figcaption", "", html("strong", "", chart.title), ...keys.map((key) => key.element));
  if (known.length === 0) {
    keys.forEach((key, index) => (key.text.textContent = `${lines[index].name}: nothing recorded`));
    return html("figure", "", caption);
  }
  const columns = Math.max(1, Math.floor((place.clientWidth + GAP) / (NARROWEST + GAP)));
  const width = Math.max(NARROWEST, (place.clientWidth - (columns - 1) * GAP) / columns);
  const times = lines[0].points.map(([atMs]) => atMs);
  const [first, last] = [times[0], times.at(-1)];
  const most = chart.most ?? roundUp(Math.max(...known, 1e-3));
  const x = (atMs) => (LEFT + ((atMs - first) / Math.max(1, last - first)) * (width - LEFT - RIGHT)).toFixed(1);
  const y = (value) => (HEIGHT - BOTTOM - (Math.min(value, most) / most) * (HEIGHT - TOP - BOTTOM)).toFixed(1);
  const plot = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "plot", tabindex: "0", role: "slider" });
  for (const share of [0, 0.5, 1]) {
    const at = y(most * share);
    plot.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: at, y2: at, class: "grid" }));
    plot.append(svg("text", { x: LEFT - 6, y: Number(at) + 4, "text-anchor": "end" }, figure(most * share)));
  }
  for (let tick = 0; tick < TICKS; tick += 1) {
    const atMs = first + ((last - first) * tick) / (TICKS - 1);
    const anchor = tick === 0 ? "start" : tick === TICKS - 1 ? "end" : "middle";
    plot.append(svg("text", { x: x(atMs), y: HEIGHT - 5, "text-anchor": anchor }, clock(atMs, last - first)));
  }
  lines.forEach((line, index) => plot.append(svg("path", { d: path(line.points, x, y), class: `line line-${index}`, "stroke-linecap": "round" })));
  const cursor = svg("g", { visibility: "hidden" });
  plot.append(cursor);
  follow({ chart, lines, keys, plot, cursor, times, x, y, width });
  return html("figure", "", caption, plot);
}

/** The captions show the newest values, or those under the cursor. */
function follow({ chart, lines, keys, plot, cursor, times, x, y, width }) {
  let at = null;
  const newest = times.findLastIndex((_, index) => lines.some((line) => line.points[index][1] !== null));
  const show = () => {
    const index = at ?? newest;
    const values = lines.map((line) => line.points[index][1]);
    const words = lines.map((line, number) => `${line.name} ${figure(values[number])}${values[number] === null ? "" : ` ${chart.unit}`}`);
    words.forEach((text, number) => (keys[number].text.textContent = text));
    const moment = new Date(times[index]).toLocaleTimeString();
    plot.setAttribute("aria-label", chart.title);
    plot.setAttribute("aria-valuemin", "0");
    plot.setAttribute("aria-valuemax", String(times.length - 1));
    plot.setAttribute("aria-valuenow", String(index));
    plot.setAttribute("aria-valuetext", `${moment}: ${words.join(", ")}`);
    cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    const line = x(times[index]);
    const right = Number(line) > width - 90;
    cursor.replaceChildren(
      svg("line", { x1: line, x2: line, y1: TOP, y2: HEIGHT - BOTTOM, class: "cursor" }),
      svg("text", { x: Number(line) + (right ? -5 : 5), y: TOP + 8, "text-anchor": right ? "end" : "start" }, moment),
      ...values.map((value, number) => (value === null ? "" : svg("circle", { cx: line, cy: y(value), r: 3, class: `dot-${number}` }))),
    );
  };
  const move = (index) => {
    at = index === null ? null : Math.max(0, Math.min(times.length - 1, index));
    show();
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const share = (((event.clientX - box.left) / box.width) * width - LEFT) / (width - LEFT - RIGHT);
    move(Math.round(share * (times.length - 1)));
  });
  plot.addEventListener("pointerleave", () => move(null));
  plot.addEventListener("blur", () => move(null));
  plot.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    const ends = { Home: 0, End: times.length - 1 };
    if (event.key in steps) {
      move((at ?? newest) + steps[event.key]);
    } else if (event.key in ends) {
      move(ends[event.key]);
    } else {
      return;
    }
    event.preventDefault();
  });
  show();
}

/** The charts are those of now, and of the chosen range; while they are being read they stay, unless the range was chosen again. */
async function refresh(chosen = false) {
  if (!chosen && place.querySelector(".plot:focus, .plot:hover") !== null) {
    return; // it is being read
  }
  const asked = range.value;
  const histories = await read();
  if (asked !== range.value) {
    return; // another request is under way
  }
  if (histories === null) {
    told.textContent = "The history cannot be read now; the charts show older data.";
    place.querySelector(".loading")?.remove();
    return;
  }
  place.replaceChildren(...CHARTS.map((chart) => draw(chart, histories)));
  const any = histories.values().next().value;
  const from = any.source === "tables" ? "From the metric tables." : "From the manager's memory: at most the last three hours.";
  told.textContent = any.problem ? `${from} ${any.problem}` : from;
}

range.addEventListener("change", () => attempt(() => refresh(true)));
repeat(refresh, Number(place.dataset.everyMs), { atOnce: true });
