// SiddhiQL for CodeMirror: highlighting in the console's colours, and the look of every editor on the page.

import { EditorView, HighlightStyle, StreamLanguage, syntaxHighlighting, tags } from "./vendor/codemirror.js";

const WORD = /^[A-Za-z_]\w*/;
const NUMBER = /^(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFdDlL]?/;

/** The language with `keywords` and `types` in lower case. State: what is open at the end of a line, if anything. */
export function siddhiql(keywords, types) {
  const words = new Set(keywords);
  const typeNames = new Set(types);
  return StreamLanguage.define({
    name: "siddhiql",
    startState: () => ({ open: null }),
    token: (stream, state) => token(stream, state, words, typeNames),
    languageData: { commentTokens: { line: "--", block: { open: "/*", close: "*/" } }, closeBrackets: { brackets: ["(", "[", "{", "'", '"'] } },
  });
}

function token(stream, state, words, typeNames) {
  if (state.open) {
    return closing(stream, state);
  }
  if (stream.eatSpace()) {
    return null;
  }
  if (stream.match("--")) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match("/*")) {
    state.open = { end: "*/", style: "comment" };
    return closing(stream, state);
  }
  if (stream.match('"""')) {
    state.open = { end: '"""', style: "string" };
    return closing(stream, state);
  }
  if (stream.match(/^'[^']*'?/) || stream.match(/^"[^"]*"?/)) {
    return "string";
  }
  if (stream.match(/^@[A-Za-z_][\w:]*/)) {
    return "annotation";
  }
  if (stream.match(NUMBER)) {
    return "number";
  }
  const word = stream.match(WORD);
  if (word) {
    return styleOf(word[0], stream, words, typeNames);
  }
  stream.next();
  return null;
}

function styleOf(word, stream, words, typeNames) {
  const folded = word.toLowerCase();
  if (typeNames.has(folded)) {
    return "typeName";
  }
  if (words.has(folded)) {
    return folded === "true" || folded === "false" || folded === "null" ? "bool" : "keyword";
  }
  return stream.match(/^\s*\(/, false) ? "variableName.function" : null;
}

function closing(stream, state) {
  const { end, style } = state.open;
  if (stream.skipTo(end)) {
    stream.match(end);
    state.open = null;
  } else {
    stream.skipToEnd();
  }
  return style;
}

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--t-keyword)" },
  { tag: tags.typeName, color: "var(--t-keyword)", fontStyle: "italic" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--t-string)" },
  { tag: [tags.annotation, tags.meta], color: "var(--t-annotation)" },
  { tag: [tags.number, tags.bool], color: "var(--t-number)" },
  { tag: tags.comment, color: "var(--t-comment)" },
  { tag: tags.function(tags.variableName), fontWeight: "600" },
]);

const THEME = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--code)", fontSize: "0.9rem" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--ink)", padding: "0.6rem 0" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--focus) 28%, transparent)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--focus) 7%, transparent)" },
  ".cm-gutters": { backgroundColor: "var(--code)", color: "var(--t-comment)", border: "0", borderRight: "1px solid var(--line)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--ink)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--strong-line)", borderRadius: "7px", boxShadow: "0 6px 24px rgb(0 0 0 / 18%)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "0.9rem", maxHeight: "16rem" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-ink)" },
  ".cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-completionDetail": { color: "var(--soft)", fontStyle: "normal" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-completionInfo, .cm-help": { padding: "0.5rem 0.75rem", maxWidth: "30rem", fontFamily: "var(--sans)", fontSize: "0.87rem" },
  ".cm-help code, .cm-completionInfo code": { display: "block", fontFamily: "var(--mono)", fontSize: "0.95em", marginBottom: "0.2rem" },
  ".cm-help p, .cm-completionInfo p": { margin: "0.25rem 0 0" },
  ".cm-diagnostic": { fontFamily: "var(--sans)", fontSize: "0.9rem", padding: "0.45rem 0.75rem", maxWidth: "40rem", whiteSpace: "pre-line" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad-fill)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--wait-fill)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad-fill) 1.5px", textUnderlineOffset: "3px", textDecorationSkipInk: "none" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--wait-fill) 1.5px", textUnderlineOffset: "3px", textDecorationSkipInk: "none" },
  ".cm-lint-marker": { content: "normal", width: "0.75em", height: "0.75em", marginTop: "0.35em" },
  ".cm-lint-marker-error": { content: "normal", backgroundColor: "var(--bad-fill)", borderRadius: "50%" },
  ".cm-lint-marker-warning": { content: "normal", backgroundColor: "var(--wait-fill)", clipPath: "polygon(50% 0, 100% 100%, 0 100%)" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--ink)", borderColor: "var(--line)" },
  ".cm-panels input, .cm-panels button": { font: "inherit", color: "inherit", backgroundColor: "var(--card)", backgroundImage: "none", border: "1px solid var(--strong-line)", borderRadius: "5px" },
  ".cm-searchMatch": { backgroundColor: "color-mix(in srgb, var(--wait-fill) 35%, transparent)" },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--good-fill) 22%, transparent)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "color-mix(in srgb, var(--good-fill) 30%, transparent)" },
  ".cm-collapsedLines": { background: "var(--raised)", color: "var(--soft)", fontFamily: "var(--sans)", fontSize: "0.87rem", padding: "0.25rem 0.6rem" },
  ".cm-collapsedLines::before, .cm-collapsedLines::after": { content: '"…"' },
  "&.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText": { background: "color-mix(in srgb, var(--bad-fill) 30%, transparent)" },
  "&.cm-merge-b .cm-changedText": { background: "color-mix(in srgb, var(--good-fill) 32%, transparent)" },
  "&.cm-merge-a .cm-changedLine": { backgroundColor: "color-mix(in srgb, var(--bad-fill) 11%, transparent)" },
  "&.cm-merge-b .cm-changedLine": { backgroundColor: "color-mix(in srgb, var(--good-fill) 12%, transparent)" },
});

/** Colours and look; every colour is one of the page's, so that light and dark follow it. */
export const LOOK = [THEME, syntaxHighlighting(COLOURS)];
