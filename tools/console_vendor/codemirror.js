// The part of CodeMirror that the console's editor uses, as one module.

export { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, startCompletion } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap, indentWithTab, toggleComment } from "@codemirror/commands";
export { bracketMatching, foldGutter, foldKeymap, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
export { linter, lintGutter, lintKeymap, forceLinting, setDiagnostics } from "@codemirror/lint";
export { unifiedMergeView, MergeView } from "@codemirror/merge";
export { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
export { Compartment, EditorState } from "@codemirror/state";
export { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
export { tags } from "@lezer/highlight";
