// Completions at a position in a plan's text: from the language as described by the manager, and the names in scope.

import { snippetCompletion, syntaxTree } from "./vendor/codemirror.js";
import { html } from "./elements.js";

const SOURCES = /\b(?:from|join|into|of|update|delete|in)\s+(?:or\s+insert\s+into\s+)?[#!]?\w*$|(?:->|,)\s*(?:every\s+|not\s+)?(?:\w+\s*=\s*)?\w*$|=\s*\w*$/i;
const TYPES = { window: "class", aggregator: "function", function: "function", "stream-function": "method" };
const NAME_TYPES = { stream: "interface", table: "constant", window: "class", aggregation: "enum", trigger: "interface", function: "function" };

/** Completion and help over `language`; `setScope` sets the names that the text defines. */
export class Helper {
  #language;
  #scope = new Map();
  #byName = new Map();

  constructor(language) {
    this.#language = language;
    for (const one of language.callables) {
      this.#byName.set(one.name, [...(this.#byName.get(one.name) ?? []), one]);
    }
  }

  /** The names in the text, as validation reports them. While a text is not valid, names that queries defined before stay known. */
  setScope(names, valid) {
    const told = names.map((one) => [one.name, one]);
    this.#scope = new Map(valid ? told : [...this.#scope, ...told]);
  }

  /** The names of streams that events can be sent to, those that no query feeds first. */
  streams() {
    const streams = [...this.#scope.values()].filter((one) => one.kind === "stream" && !/^[#!]/.test(one.name));
    return [...streams.filter((one) => !one.fed), ...streams.filter((one) => one.fed)];
  }

  /** A source of completions for CodeMirror. */
  complete(context) {
    const node = syntaxTree(context.state).resolveInner(context.pos, -1);
    if (/comment|string/i.test(node.name)) {
      return null;
    }
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const annotation = /@[\w:]*$/.exec(before);
    if (annotation) {
      return { from: context.pos - annotation[0].length, options: this.#annotations(), validFor: /^@[\w:]*$/ };
    }
    const handler = /#(window\.)?[\w:]*$/.exec(before);
    if (handler) {
      const from = context.pos - handler[0].length + (handler[1] ? "#window.".length : 1);
      const options = handler[1] ? this.#callables("window") : [...this.#callables("stream-function"), ...this.#inner(), WINDOW];
      return { from, options, validFor: /^[\w:]*$/ };
    }
    const member = /(\w+)(?:\[[^\]]*\])?\.(\w*)$/.exec(before);
    if (member) {
      const options = this.#attributesOf(this.#resolve(member[1], statementBefore(context)));
      return options.length ? { from: context.pos - member[2].length, options, validFor: /^\w*$/ } : null;
    }
    const word = /[\w:]*$/.exec(before)[0];
    if (!word && !context.explicit) {
      return null;
    }
    return { from: context.pos - word.length, options: this.#words(before, statementBefore(context)), validFor: /^[\w:]*$/ };
  }

  /** The callable or name at `position` of `state`, as {from, to, dom}, or null. */
  helpAt(state, position) {
    const line = state.doc.lineAt(position);
    for (const match of line.text.matchAll(/[\w:]+/g)) {
      const from = line.from + match.index;
      if (from <= position && position <= from + match[0].length) {
        const dom = this.#describe(match[0]);
        return dom && { from, to: from + match[0].length, dom };
      }
    }
    return null;
  }

  #describe(word) {
    const name = this.#scope.get(word);
    if (name) {
      return html("div", "cm-help", ...described(name));
    }
    const called = this.#byName.get(word);
    return called ? html("div", "cm-help", ...called.flatMap(documented)) : null;
  }

  #annotations() {
    return this.#language.annotations.map((one) => snippetCompletion(one.text.replaceAll("''", "'${}'"), { label: one.text, type: "keyword", info: one.summary }));
  }

  #callables(...kinds) {
    return this.#language.callables.filter((one) => kinds.includes(one.kind)).map((one) => snippetCompletion(`${one.name}(\${})`, { label: one.name, detail: one.kind.replace("-", " "), type: TYPES[one.kind], info: () => html("div", "", ...documented(one)) }));
  }

  #inner() {
    return [...this.#scope.values()].filter((one) => one.name.startsWith("#")).map((one) => ({ label: one.name.slice(1), type: "interface", detail: "inner stream" }));
  }

  #words(before, statement) {
    const wantsSource = SOURCES.test(before);
    const names = [...this.#scope.values()].filter((one) => !/^[#!]/.test(one.name)).map((one) => ({ label: one.name, type: NAME_TYPES[one.kind], detail: one.kind, boost: wantsSource ? 60 : 0, info: () => html("div", "", ...described(one)) }));
    const here = [...this.#scope.values()].filter((one) => one.kind !== "function" && new RegExp(`\\b${one.name.replace(/\W/g, "")}\\b`).test(statement));
    const attributes = [...new Map(here.flatMap((one) => this.#attributesOf(one)).map((option) => [option.label, option])).values()];
    const keywords = this.#language.keywords.map((word) => ({ label: word, type: "keyword" }));
    const types = this.#language.types.map((word) => ({ label: word, type: "type", boost: -10 }));
    return [...names, ...attributes, ...this.#callables("function", "aggregator"), ...keywords, ...types];
  }

  #attributesOf(name) {
    return name ? name.attributes.map(([attribute, type]) => ({ label: attribute, type: "property", detail: `${type} · ${name.name}`, boost: 40 })) : [];
  }

  /** Resolves `word` in the statement: an alias, an element of a pattern, or a name itself. */
  #resolve(word, statement) {
    const quoted = word.replace(/\W/g, "");
    const element = new RegExp(`\\b${quoted}\\s*=\\s*(?:every\\s+|not\\s+)?(\\w+)`).exec(statement);
    const alias = new RegExp(`(\\w+)(?:\\s*[[#][^;]*?)?\\s+as\\s+${quoted}\\b`, "i").exec(statement);
    return this.#scope.get(element?.[1]) ?? this.#scope.get(word) ?? this.#scope.get(alias?.[1]);
  }
}

const WINDOW = { label: "window", apply: "window.", type: "keyword", detail: "a window" };

/** The text around the place, between the semicolons. */
function statementBefore(context) {
  const text = context.state.doc.toString();
  const begin = text.lastIndexOf(";", context.pos - 1) + 1;
  const end = text.indexOf(";", context.pos);
  return text.slice(begin, end < 0 ? text.length : end);
}

function documented(one) {
  const parts = one.signatures.map((signature) => html("code", "", signature));
  return [...parts, html("p", "", sentence(one.summary)), ...(one.description ? [html("p", "", one.description)] : [])];
}

function described(name) {
  const attributes = name.attributes.map(([attribute, type]) => `${attribute} ${type}`).join(", ");
  return [html("code", "", `${name.kind} ${name.name} (${attributes})`)];
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
