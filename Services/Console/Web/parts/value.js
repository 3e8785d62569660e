// @ts-check
/** Values as a tree, in which long lists open in parts, and as single cells. All text goes through the page's
 * text nodes, so HTML in a document is shown and never run. */

import { html, useMemo, useState } from "../vendor/preact.js";
import { isFilter } from "../dql.js";
import { kind, print } from "../exact.js";
import { bytes, counted, grouped, keyText, pathText, preview, shortened } from "../format.js";

const STEP = 100;
const LONGEST = 2000;

/**
 * A value in one cell.
 * @param {{value: any, most?: number}} props
 */
export function Cell({ value, most = 120 }) {
  const type = kind(value);
  if (type === "missing") return html`<span class="missing" aria-label="missing">·</span>`;
  return html`<span class=${`value ${type}`}>${preview(value, most)}</span>`;
}

/** Characters of a text of JSON that are shown at first. */
const TEXT = 200_000;

/** The beginning of a value's JSON, and what is left: of a list only its beginning is printed. @param {any} value @param {number} most */
function beginning(value, most) {
  if (!Array.isArray(value)) {
    const text = print(value, 2);
    return { text: text.slice(0, most), rest: text.length > most ? `${grouped(text.length - most)} more characters` : null };
  }
  const parts = [];
  for (let size = 0; size < most && parts.length < value.length; size += parts[parts.length - 1].length) parts.push(print(value[parts.length], 2).replaceAll("\n", "\n  "));
  const left = value.length - parts.length;
  const text = value.length === 0 ? "[]" : `[\n  ${parts.join(",\n  ")}${left > 0 ? ",\n  …" : "\n]"}`;
  return { text: text.slice(0, most), rest: left > 0 ? counted(left, "more row") : text.length > most ? `${grouped(text.length - most)} more characters` : null };
}

/** Characters of one part of it. */
const PART = 8_000;

/** A text in parts that end with a line, where lines are no longer than a part. @param {string} text */
function partsOf(text) {
  const parts = [];
  for (let at = 0; at < text.length;) {
    const line = text.lastIndexOf("\n", at + PART);
    const isLast = at + PART >= text.length;
    const end = isLast ? text.length : line > at ? line : at + PART;
    parts.push(text.slice(at, end));
    // The end of a part is the end of its line.
    at = end + (!isLast && line > at ? 1 : 0);
  }
  return parts;
}

/** A value as a text of JSON: a long one in parts. @param {{value: any}} props */
export function Text({ value }) {
  const [most, setMost] = useState(TEXT);
  const { text, rest } = useMemo(() => beginning(value, most), [value, most]);
  return html`<div class="json-text"><div tabIndex="0" aria-label="JSON" role="group">${partsOf(text).map((part, index) => html`<pre key=${index}>${part}</pre>`)}</div>
    ${rest && html`<button type="button" onClick=${() => setMost(most * 10)}>${rest}</button>`}</div>`;
}

/**
 * A value as a tree.
 * @param {{value: any, name?: string | null, open?: number, pick?: (path: string[], value: any) => void,
 *   change?: (path: string[], value: any) => void, path?: string[]}} props
 *   `open`: levels that are open at first; `pick`: called with a value that is clicked; `change`: with one that
 *   is to be changed.
 */
export function Tree({ value, name = null, open = 1, pick, change, path = [] }) {
  const type = kind(value);
  const isBranch = type === "object" || type === "array" || type === "attachment";
  const [isOpen, setOpen] = useState(open > 0);
  const [most, setMost] = useState(STEP);
  const label = name === null ? null : html`<span class="key">${keyText(name)}</span>`;
  if (!isBranch) {
    const text = type === "text" ? value : print(value);
    const shown = html`<span class=${`value ${type}`} title=${type}>${shortened(text, LONGEST)}</span>`;
    return html`<div class="leaf">${label}${pick && isFilter(value)
      ? html`<button type="button" class="pick" title="Show documents with this value" onClick=${() => pick(path, value)}>${shown}</button>` : shown}
      <span class="kind">${type}</span>${change && path.length > 0 && path[0] !== "_id" && html`
        <button type="button" class="plain change" aria-label=${`Change ${pathText(path)}`} onClick=${() => change(path, value)}>change</button>`}</div>`;
  }
  const keys = Object.keys(value);
  const sum = type === "attachment" ? `attachment, ${bytes(Number(value.len))}`
    : `${keys.length} ${type === "array" ? (keys.length === 1 ? "item" : "items") : (keys.length === 1 ? "field" : "fields")}`;
  return html`<div class="branch">
    <button type="button" class="fold" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
      <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span>${label ?? html`<span class="key">document</span>`}
      <span class="kind">${sum}</span></button>
    ${isOpen && html`<div class="members">
      ${keys.slice(0, most).map((key) => html`<${Tree} key=${key} name=${key} value=${value[key]} open=${open - 1}
        pick=${type === "array" ? undefined : pick} change=${type === "object" ? change : undefined} path=${[...path, key]} />`)}
      ${keys.length > most && html`<button type="button" onClick=${() => setMost(most + STEP * 10)}>${keys.length - most} more</button>`}
    </div>`}</div>`;
}
