// Events for trying out a plan: typed one per line, generated, or read from a file. Pure.

export const MOST_FROM_FILE = 1000;
const WHOLE = new Set(["int", "long"]);
const FRACTION = new Set(["float", "double"]);

/**
 * The events in `text`, a JSON object a line: {stream, data, timestamp?}, or flat with the attributes beside `stream`; without
 * `stream` it is for the stream `otherwise`. `streams` ({name, attributes}) tell whose attribute `_timestamp` is. Throws Error that
 * names the line.
 */
export function readEvents(text, otherwise, streams) {
  const events = [];
  text.split("\n").forEach((line, at) => {
    if (line.trim()) {
      events.push(readEvent(line, at + 1, otherwise, streams));
    }
  });
  return events;
}

function readEvent(line, number, otherwise, streams) {
  let written;
  try {
    written = JSON.parse(line);
  } catch {
    throw new Error(`Line ${number} is not a JSON object: ${line.trim().slice(0, 60)}`);
  }
  if (written === null || typeof written !== "object" || Array.isArray(written)) {
    throw new Error(`Line ${number} must be a JSON object such as {"stream": "…", "data": {…}}`);
  }
  const { stream = otherwise, data, timestamp, ...rest } = written;
  const flat = apart(rest, streams.find((one) => one.name === stream));
  const event = { stream: String(stream ?? ""), data: data ?? flat.data };
  const time = timestamp ?? flat.timestamp;
  return time === undefined || time === null ? event : { ...event, timestamp: time };
}

/** `count` events of `stream` ({name, attributes}) as lines; strings have only few different values, so that they recur. */
export function generate(stream, count, random = Math.random, now = Date.now()) {
  return Array.from({ length: count }, () => {
    const data = Object.fromEntries(stream.attributes.map(([name, type]) => [name, valueOf(name, type, random, now)]));
    return JSON.stringify({ stream: stream.name, data });
  });
}

function valueOf(name, type, random, now) {
  if (name === "_timestamp" && type === "long") {
    return now; // it is the event's time as well
  }
  if (type === "string") {
    return `${name}-${1 + Math.floor(random() * 3)}`;
  }
  if (type === "bool") {
    return random() < 0.5;
  }
  if (WHOLE.has(type)) {
    return Math.floor(random() * 100);
  }
  return FRACTION.has(type) ? Math.round(random() * 1000) / 10 : {};
}

/** The events of a file, as lines: CSV by the extension, with a header line, else JSON, an object a line or a list. */
export function fromFile(name, text, stream) {
  const rows = eventsOf(name, text, stream);
  const lines = rows.slice(0, MOST_FROM_FILE).map((row) => JSON.stringify(stream && row.stream === undefined ? { stream: stream.name, ...apart(row, stream) } : row));
  return { lines, count: rows.length };
}

/** The events of a file as objects of attributes; those of CSV are typed by `stream.attributes`. */
export function eventsOf(name, text, stream) {
  return /\.csv$/i.test(name) ? fromCsv(text, stream) : fromJson(text);
}

function fromJson(text) {
  if (text.trimStart().startsWith("[")) {
    return JSON.parse(text);
  }
  return text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
}

/** The attributes of `row` and the event's time, which is under `_timestamp`; an attribute of `stream` may be called so. */
function apart(row, stream) {
  const { _timestamp, ...others } = row;
  const type = stream?.attributes.find(([name]) => name === "_timestamp")?.[1];
  const data = type === undefined ? others : row;
  return _timestamp === undefined || (type ?? "long") !== "long" ? { data } : { data, timestamp: _timestamp };
}

function fromCsv(text, stream) {
  const [names, ...rows] = cells(text).filter((row) => row.length > 1 || row[0] !== "");
  const types = new Map(stream?.attributes ?? []);
  return rows.map((row) => Object.fromEntries((names ?? []).map((name, at) => [name.trim(), typed(row[at] ?? "", types.get(name.trim()) ?? "long")])));
}

function typed(cell, type) {
  if (type === "string") {
    return cell;
  }
  if (cell === "") {
    return null;
  }
  if (type === "bool") {
    return cell.toLowerCase() === "true";
  }
  return Number.isNaN(Number(cell)) ? cell : Number(cell);
}

/** The cells of CSV, row by row; a cell in quotes may have commas, line ends and doubled quotes. */
function cells(text) {
  const rows = [[]];
  for (const match of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1).push(match[1] === undefined ? match[2] : match[1].replaceAll('""', '"'));
    if (match[3] !== ",") {
      if (match.index + match[0].length >= text.length) {
        break;
      }
      rows.push([]);
    }
  }
  return rows;
}
