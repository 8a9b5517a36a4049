// The part of CodeMirror that the console's editor uses, as one module.

export { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, snippetCompletion } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting, syntaxTree } from "@codemirror/language";
export { forceLinting, linter, lintGutter, lintKeymap } from "@codemirror/lint";
export { MergeView } from "@codemirror/merge";
export { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
export { EditorState } from "@codemirror/state";
export { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
export { tags } from "@lezer/highlight";
