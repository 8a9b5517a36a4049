// Tries out a plan: sends it with some events to the manager and shows the results of each event.

import { html, table } from "./elements.js";
import { send } from "./refresh.js";
import { fromFile, generate, MOST_FROM_FILE, readEvents } from "./try_events.js";

/** The editor's panel for trying out a plan; `text()` returns the plan, `streams()` its input streams. */
export class TryOut {
  #text;
  #streams;
  #address;
  #parts;

  constructor(panel, text, streams) {
    this.#text = text;
    this.#streams = streams;
    this.#address = panel.dataset.address;
    const part = (name) => panel.querySelector(`#try-${name}`);
    this.#parts = Object.fromEntries(["events", "stream", "count", "generate", "file", "wait", "run", "told", "results"].map((name) => [name, part(name)]));
    this.#parts.generate.addEventListener("click", () => this.#generate());
    this.#parts.file.addEventListener("change", () => this.#read());
    this.#parts.run.addEventListener("click", () => this.#run());
    this.#parts.events.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.#run();
      }
    });
  }

  /** The panel is in view: its streams are those of the text. */
  opened() {
    const { stream, events } = this.#parts;
    const streams = this.#streams();
    const names = streams.map((one) => one.name);
    const chosen = names.includes(stream.value) ? stream.value : names[0];
    stream.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
    if (!events.value && streams.length) {
      const fed = streams.filter((one) => !one.fed);
      const lines = (fed.length ? fed : streams).map((one) => generate(one, 4));
      events.value = lines[0].flatMap((_, at) => lines.map((of) => of[at])).join("\n");
    }
  }

  #stream() {
    return this.#streams().find((one) => one.name === this.#parts.stream.value);
  }

  #generate() {
    const { events, count } = this.#parts;
    const stream = this.#stream();
    if (!stream) {
      this.#tell("bad", "The text defines no stream to generate events for.");
      return;
    }
    const many = Math.max(1, Math.min(1000, Number(count.value) || 1));
    events.value = [events.value.trimEnd(), ...generate(stream, many)].filter(Boolean).join("\n");
    this.#tell("idle", `${many} events of ${stream.name} were added.`);
  }

  async #read() {
    const { file, events } = this.#parts;
    const [chosen] = file.files;
    if (!chosen) {
      return;
    }
    try {
      const { lines, count } = fromFile(chosen.name, await chosen.text(), this.#stream());
      events.value = lines.join("\n");
      this.#tell("idle", count > MOST_FROM_FILE ? `The first ${MOST_FROM_FILE} of ${count} events of ${chosen.name}.` : `${count} events of ${chosen.name}.`);
    } catch {
      this.#tell("bad", `${chosen.name} cannot be read: it must be CSV with a header line, or JSON objects, one per line.`);
    }
    file.value = "";
  }

  async #run() {
    const { events, stream, wait, run, results } = this.#parts;
    let read;
    try {
      read = readEvents(events.value, stream.value, this.#streams());
    } catch (error) {
      this.#tell("bad", error.message);
      return;
    }
    run.disabled = true;
    this.#tell("busy", "Running…");
    const answer = await send(this.#address, { text: this.#text(), events: read, wait_ms: Math.round((Number(wait.value) || 0) * 1000) });
    run.disabled = false;
    if (!answer) {
      this.#tell("bad", "No response from the manager.");
      return;
    }
    const told = await answer.json();
    if (answer.ok) {
      this.#tell("good", `${read.length} events ran through in ${duration(told.took_ms)}.`);
      results.replaceChildren(...resultsOf(told, read.length, new Set(this.#streams().filter((one) => !one.fed).map((one) => one.name))));
    } else {
      this.#tell("bad", told.message);
      results.replaceChildren();
    }
  }

  #tell(tone, text) {
    this.#parts.told.className = `mark tone-${tone}`;
    this.#parts.told.textContent = text;
  }
}

function duration(ms) {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** What came out: streams that queries feed, partial matches, tables; folded what queries let out, what went in, state and log. */
function resultsOf(result, sent, inputs) {
  const filled = (kind) => result.outputs.filter((one) => one.kind === kind && one.count);
  const shown = (one, open = true, caused = true) => section(`${one.kind} ${one.name}${caused ? "" : ", at the end"}`, one.count, rowsOf(one, sent, caused), open);
  const parts = filled("stream").filter((one) => !inputs.has(one.name)).map((one) => shown(one));
  parts.push(...filled("table").map((one) => shown(one, true, false)));
  if (result.partial_matches.length) {
    const rows = result.partial_matches.map((one) => [after(one.after, sent), one.query, String(one.count)]);
    parts.push(section("Partial matches", null, table(["After", "Query", "Matches that are not complete yet"], rows, [2])));
  }
  parts.push(...filled("query").map((one) => shown(one, false)), ...filled("stream").filter((one) => inputs.has(one.name)).map((one) => shown(one, false)));
  const held = result.state.filter((one) => one.rows || one.groups || one.partial_matches || one.instances);
  if (held.length) {
    const rows = held.map((one) => [`${one.kind} ${one.name}`, ...[one.rows, one.groups, one.partial_matches, one.instances, one.bytes].map(String)]);
    parts.push(section("State at the end", null, table(["Part", "Rows", "Groups", "Partial matches", "Instances", "Bytes (estimated)"], rows, [1, 2, 3, 4, 5]), false));
  }
  const failures = Object.entries(result.failures);
  if (failures.length) {
    parts.push(section("Failed events", null, table(["Stream", "Events"], failures.map(([stream, count]) => [stream, String(count)]), [1])));
  }
  if (result.log.length) {
    parts.push(section("Log", result.log.length, html("pre", "log", result.log.join("\n")), false));
  }
  return parts.length ? parts : [html("p", "meta none", "No results.")];
}

function section(title, count, content, open = true) {
  const heading = html("summary", "", html("h3", "", title.charAt(0).toUpperCase() + title.slice(1)), count === null ? "" : html("span", "meta", ` ${count} ${count === 1 ? "row" : "rows"}`));
  const part = html("details", "result", heading, content);
  part.open = open;
  return part;
}

function rowsOf(output, sent, caused = true) {
  const heads = output.attributes.map(([name]) => name);
  const kinds = output.kind === "query" ? ["Kind"] : [];
  const numbers = output.attributes.flatMap(([, type], at) => (["int", "long", "float", "double"].includes(type) ? [at + (caused ? 2 : 0) + kinds.length] : []));
  const rows = output.rows.map((row) => [
    ...(caused ? [after(row.after, sent), time(row.timestamp)] : []),
    ...(kinds.length ? [row.expired ? "expired" : "current"] : []),
    ...row.values.map(written),
  ]);
  const shown = table([...(caused ? ["After", "Time (UTC)"] : []), ...kinds, ...heads], rows, numbers);
  return output.count > output.rows.length ? html("div", "", shown, html("p", "meta", `The first ${output.rows.length} of ${output.count} rows.`)) : shown;
}

function after(number, sent) {
  if (number === 0) {
    return "the start";
  }
  return number > sent ? "the wait" : `event ${number}`;
}

function time(stamp) {
  return new Date(stamp).toISOString().replace("T", " ").replace("Z", "");
}

function written(value) {
  return value === null ? html("span", "null", "null") : typeof value === "string" ? value : JSON.stringify(value);
}
