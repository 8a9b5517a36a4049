// Preview of the state and the waiting events that would be kept if a text replaced the deployed plan.

import { html, table } from "./elements.js";
import { send } from "./refresh.js";

const COUNTS = [["rows", "rows"], ["groups", "groups"], ["partial_matches", "partial matches"], ["distinct_values", "distinct values"], ["instances", "instances"]];
const FATES = { kept: "continue as they are", mapped: "continue in their new form", failed: "become failed events" };

/** Asks for one preview at a time: the manager runs each in a process of its own. A request made meanwhile comes next. */
export class EditPreview {
  #asking = false;
  #next = null;

  /** Fills `place` with the preview of replacing the plan at `address` with `text`. */
  async show(place, address, text) {
    this.#next = { place, address, text };
    say(place, "Checking what happens to the state of the deployed plan …");
    if (this.#asking) {
      return;
    }
    this.#asking = true;
    try {
      while (this.#next) {
        const asked = this.#next;
        this.#next = null;
        const answer = await send(asked.address, asked.text);
        const told = await answer?.json();
        if (this.#next === null) {
          fill(asked.place, answer, told);
        }
      }
    } finally {
      this.#asking = false;
    }
  }
}

function say(place, words) {
  place.replaceChildren(html("p", "meta", words));
}

function fill(place, answer, told) {
  if (!answer?.ok) {
    say(place, `Cannot determine what happens to the state now${told?.message ? `: ${told.message}` : "."}`);
    return;
  }
  const { parts, streams, kept, reset, note } = told;
  const tone = reset || streams.some(({ fate }) => fate === "failed") ? "wait" : "good";
  const verdict = parts.length ? `State: ${kept} kept, ${reset} reset` : "No state would be lost: the deployed plan has none";
  place.replaceChildren(html("p", `verdict mark tone-${note && !parts.length ? "idle" : tone}`, note && !parts.length ? note : verdict));
  if (parts.length) {
    place.append(table(["State", "", "Current content", "Why"], parts.map(partRow)));
  }
  if (streams.length) {
    place.append(table(["Stream", "Waiting accepted events", "What happens to them", "How"], streams.map(streamRow), [1]));
  }
  if (note && parts.length) {
    place.append(html("p", "meta", `${note}.`));
  }
}

function partRow({ kind, name, kept, reason, held }) {
  const counts = held ? COUNTS.filter(([count]) => held[count]).map(([count, words]) => `${held[count].toLocaleString("en")} ${words}`) : [];
  return [`${kind} ${name}`, html("strong", `mark tone-${kept ? "good" : "wait"}`, kept ? "kept" : "reset"), counts.join(", ") || (held ? "empty" : "–"), reason];
}

function streamRow({ stream, waiting_events: waiting, fate, reason }) {
  return [stream, waiting.toLocaleString("en"), FATES[fate], reason];
}
