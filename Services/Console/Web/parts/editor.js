// @ts-check
/**
 * An editor for DQL and JSON: CodeMirror, loaded when the first one is shown. Where it cannot be loaded, or
 * until it is there, a plain text field does the same.
 */

import { html, useEffect, useLayoutEffect, useRef } from "../vendor/preact.js";
import { functions, keywords, parameters } from "../language.js";
import { field, name } from "../dql.js";
import { pathText } from "../format.js";

const FILES = ["codemirror", "codemirror-simple", "codemirror-hint", "codemirror-closebrackets", "codemirror-matchbrackets"];
/** @type {Promise<any> | null} */
let loading = null;

/** Loads CodeMirror once. */
export function loadEditor() {
  loading ??= (async () => {
    for (const file of FILES) {
      await new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = new URL(`../vendor/${file}.js`, import.meta.url).href;
        script.onload = resolve;
        script.onerror = () => reject(new Error(`${file}.js cannot be loaded`));
        document.head.append(script);
      });
    }
    const CodeMirror = /** @type {any} */ (globalThis).CodeMirror;
    defineModes(CodeMirror);
    return CodeMirror;
  })().catch((error) => { loading = null; throw error; });
  return loading;
}

/** @param {any} CodeMirror */
function defineModes(CodeMirror) {
  const words = new RegExp(`(?:${keywords.join("|")})\\b`, "i");
  const calls = [...new Set(functions.map(([signature]) => signature.split("(")[0]))];
  const known = new RegExp(`(?:${calls.map((call) => call.replace(".", "\\.")).join("|")})(?=\\s*\\()`, "i");
  CodeMirror.defineSimpleMode("dql", {
    start: [
      { regex: /--.*/, token: "comment" },
      { regex: /\/\*/, token: "comment", next: "comment" },
      { regex: /'(?:[^']|'')*'?/, token: "string" }, { regex: /"(?:[^"\\]|\\.)*"?/, token: "string" },
      { regex: /`(?:[^`]|``)*`?/, token: "variable-2" },
      { regex: /:[A-Za-z_]\w*/, token: "def" },
      { regex: known, token: "builtin" }, { regex: words, token: "keyword" },
      { regex: /\d+(?:\.\d+)?(?:e[+-]?\d+)?/i, token: "number" },
      { regex: /[A-Za-z_]\w*/, token: "variable" }, { regex: /[-+/*=<>!|]+/, token: "operator" },
    ],
    comment: [{ regex: /.*?\*\//, token: "comment", next: "start" }, { regex: /.*/, token: "comment" }],
    meta: { lineComment: "--" },
  });
  CodeMirror.defineSimpleMode("exact-json", {
    start: [
      { regex: /"(?:[^"\\]|\\.)*"(?=\s*:)/, token: "property" }, { regex: /"(?:[^"\\]|\\.)*"?/, token: "string" },
      { regex: /(?:true|false|null)\b/, token: "atom" }, { regex: /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/, token: "number" },
      { regex: /[{[]/, indent: true }, { regex: /[}\]]/, dedent: true },
    ],
  });
}

/**
 * The words that may stand at the cursor: collections after FROM and the like, else fields, functions,
 * keywords, and parameters after SET of ALTER SYSTEM.
 * @param {string} before The statement up to the cursor. @param {{collections: string[], fields: string[][]}} names
 */
export function completions(before, names) {
  const [, start = "", typed = ""] = /^([\s\S]*?)([A-Za-z_`][\w.`]*)?$/.exec(before) ?? [];
  const wanted = typed.toLowerCase();
  const isCollection = /\b(?:FROM|INTO|UPDATE|JOIN|COLLECTION|ON)\s+$/i.test(start);
  const isParameter = /\b(?:SYSTEM\s+(?:SET|RESET)|SHOW)\s+$/i.test(start);
  const fits = (/** @type {string} */ text) => text.toLowerCase().replaceAll("`", "").startsWith(wanted.replaceAll("`", ""));
  const collections = names.collections.map((one) => ({ text: name(one), displayText: one, className: "hint-collection" }));
  const fields = names.fields.map((one) => ({ text: field(one), displayText: pathText(one), className: "hint-field" }));
  const calls = functions.map(([signature, about]) => ({
    text: `${signature.split("(")[0]}(`, displayText: `${signature}  ${about}`, className: "hint-function",
  }));
  const words = keywords.map((text) => ({ text, displayText: text, className: "hint-keyword" }));
  const all = isCollection ? collections : isParameter ? parameters.map((text) => ({ text, displayText: text }))
    : [...fields, ...words, ...(wanted ? calls : []), ...(wanted ? collections : [])];
  return { list: all.filter(({ displayText }) => fits(displayText)).slice(0, 60), typed };
}

/**
 * @param {{value: string, change: (text: string) => void, mode: "dql" | "exact-json", label: string,
 *   run?: (selection: string) => void, names?: () => {collections: string[], fields: string[][]},
 *   mark?: {line: number, column: number} | null, readOnly?: boolean, focus?: boolean}} props
 */
export function Editor(props) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const editor = useRef(/** @type {any} */ (null));
  const latest = useRef(props);
  latest.current = props;
  // The text that the page and the editor had in common last: sent up by the editor, or given by the page.
  const common = useRef(props.value);
  useEffect(() => {
    let isGone = false;
    loadEditor().then((CodeMirror) => {
      const area = place.current?.querySelector("textarea");
      if (isGone || !area) return;
      const had = document.activeElement === area;
      const { selectionStart, selectionEnd } = area;
      editor.current = CodeMirror.fromTextArea(area, {
        mode: props.mode, lineNumbers: true, lineWrapping: true, matchBrackets: true, autoCloseBrackets: true,
        indentUnit: 2, tabSize: 2, readOnly: props.readOnly ?? false, inputStyle: "textarea", viewportMargin: 20,
        screenReaderLabel: props.label,
        extraKeys: {
          "Ctrl-Enter": run, "Cmd-Enter": run, "Ctrl-Space": hint,
          // Tab leaves the editor, so that the keyboard alone goes everywhere.
          Tab: false, "Shift-Tab": false,
          // Escape is the dialog's; while words are offered it takes those away.
          Esc: false,
        },
      });
      common.current = editor.current.getValue();
      editor.current.setSelection(...[selectionStart, selectionEnd].map((at) => editor.current.posFromIndex(at)));
      editor.current.on("change", () => {
        const text = editor.current.getValue();
        if (text === common.current) return;
        common.current = text;
        latest.current.change(text);
      });
      editor.current.on("inputRead", (/** @type {any} */ _, /** @type {any} */ input) => {
        if (latest.current.names && /^[\w`.]$/.test(input.text[0])) hint();
      });
      if (had || latest.current.focus) editor.current.focus();
      show(latest.current.mark);
    }).catch(() => { /* The text field stays. */ });
    const run = () => latest.current.run?.(editor.current.getSelection());
    const hint = () => editor.current.showHint({
      completeSingle: false,
      hint: () => {
        const cursor = editor.current.getCursor();
        const names = latest.current.names?.() ?? { collections: [], fields: [] };
        const { list, typed } = completions(editor.current.getRange({ line: 0, ch: 0 }, cursor), names);
        return { list, from: { line: cursor.line, ch: cursor.ch - typed.length }, to: cursor };
      },
    });
    return () => { isGone = true; editor.current?.toTextArea(); editor.current = null; };
  }, []);
  // A text that came from the editor is never set again: by then more may have been typed, and an older text
  // would be another change, and so on for ever. Hence also at once after drawing, before the next key.
  useLayoutEffect(() => {
    if (!editor.current || props.value === common.current) return;
    common.current = props.value;
    editor.current.setValue(props.value);
  }, [props.value]);
  const show = (/** @type {any} */ mark) => {
    const found = editor.current;
    if (!found) return;
    for (const old of found.getAllMarks()) if (old.className === "wrong") old.clear();
    if (!mark) return;
    const from = { line: mark.line - 1, ch: mark.column - 1 };
    const token = found.getTokenAt({ line: from.line, ch: from.ch + 1 });
    found.markText(from, { line: from.line, ch: Math.max(token.end, from.ch + 1) }, { className: "wrong" });
  };
  useEffect(() => show(props.mark), [props.mark?.line, props.mark?.column, props.value]);
  return html`<div class="editor" ref=${place} key="editor">
    <textarea aria-label=${props.label} spellcheck=${false} readOnly=${props.readOnly} value=${props.value}
      onInput=${(/** @type {any} */ event) => props.change(event.currentTarget.value)}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); props.run?.(""); }
      }}></textarea></div>`;
}
