// @ts-check
/** The rows of a statement: as a table, as JSON, as a chart; whole, and to be taken away. */

import { html, useState } from "../vendor/preact.js";
import { breath } from "../api.js";
import { kind, print } from "../exact.js";
import { counted, grouped } from "../format.js";
import { note } from "../store.js";
import { copy } from "./basics.js";
import { Chart } from "./chart.js";
import { Columns, useColumns, useFields, useLayout } from "./columns.js";
import { Table } from "./table.js";
import { Text, Tree } from "./value.js";
import { Dialog } from "./basics.js";

/** Columns that are shown. */
const COLUMNS = 12;
/** Rows whose JSON is shown at first: more is a click away. */
const SHOWN = 50;

/** Characters that become one part of a file. */
const PART = 1 << 20;

/** Gives parts to the browser as a file; they are made one after the other, and the browser draws meanwhile. @param {string} name @param {Iterable<BlobPart> | AsyncIterable<BlobPart>} parts @param {string} type */
export async function save(name, parts, type) {
  /** @type {BlobPart[]} */
  const whole = [];
  let text = "";
  const flush = () => { if (text) whole.push(new Blob([text])); text = ""; };
  for await (const part of parts) {
    if (typeof part === "string") text += part;
    else { flush(); whole.push(part); }
    if (text.length > PART) flush();
    await breath();
  }
  flush();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(whole, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Begins of texts that spreadsheets take for formulas, and run. */
const FORMULA = /^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

/**
 * A cell of CSV. A text that a spreadsheet would take for a formula has an apostrophe before it, which files.js
 * takes away again; numbers are left alone (decision 0132).
 * @param {any} value
 */
export function csvCell(value) {
  if (value === undefined || value === null) return "";
  const text = typeof value !== "string" ? print(value) : FORMULA.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text;
}

/** About the button that makes it. */
export const CSV_TITLE = "For spreadsheets: a text that begins like a formula gets an apostrophe before it";

/** Rows as CSV, with the first level of fields as columns, the most frequent ones first: its parts. @param {any[]} rows @returns {AsyncGenerator<string>} */
export async function* csv(rows) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const row of rows) {
    if (row && typeof row === "object") for (const key of Object.keys(row)) found.set(key, (found.get(key) ?? 0) + 1);
    await breath();
  }
  const columns = [...found].sort((a, b) => b[1] - a[1]).map(([key]) => key);
  yield columns.map(csvCell).join(",");
  for (const row of rows) yield `\r\n${columns.map((key) => csvCell(row?.[key])).join(",")}`;
}

/** Rows as lines of JSON. @param {any[]} rows */
export function* lines(rows) { for (const row of rows) yield `${print(row)}\n`; }

/** Rows as one text of JSON, while the browser draws. @param {any[]} rows */
async function whole(rows) {
  const parts = [];
  for (const row of rows) {
    parts.push(print(row, 2).replaceAll("\n", "\n  "));
    await breath();
  }
  return parts.length > 0 ? `[\n  ${parts.join(",\n  ")}\n]` : "[]";
}

/**
 * @param {{name: string, rows: any[], total?: number, view: string, setView: (view: string) => void, more?: (() => void) | null}} props
 *   `name`: before the fields in the name under which the browser keeps the columns; `total`: how many rows there
 *   are; `more`: shows more rows, where nobody knows how many there are.
 */
export function Results({ name, rows, total = rows.length, view, setView, more }) {
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const [most, setMost] = useState(SHOWN);
  const available = useFields(rows);
  const [layout, setLayout] = useLayout(`${name}.rows ${available.join(" ")}`);
  const columns = useColumns(rows, available, COLUMNS, layout);
  const [isArranging, setArranging] = useState(false);
  const sample = rows.slice(0, 200);
  const numeric = columns.filter(({ key }) => key !== "_id" && sample.some((row) => ["integer", "double"].includes(kind(row?.[key])))).map(({ key }) => key);
  const file = (/** @type {string} */ name, /** @type {any} */ parts, /** @type {string} */ type) => {
    save(name, parts, type);
    if (more || total > rows.length) note(`The file has the first ${counted(rows.length, "row")}; there are more`);
  };
  return html`<section class="results" aria-label="Result">
    <div class="bar">
      <div class="tabs" role="tablist" aria-label="View of the result">${["table", "tree", "json", ...(numeric.length > 0 ? ["chart"] : [])].map((name) => html`
        <button key=${name} type="button" role="tab" aria-selected=${view === name} onClick=${() => setView(name)}>${{ table: "Table", tree: "Tree", json: "JSON", chart: "Chart" }[name]}</button>`)}</div>
      <span class="count">${more ? `first ${counted(rows.length, "row")}` : total > rows.length ? `first ${grouped(rows.length)} of ${counted(total, "row")}` : counted(rows.length, "row")}</span>
      ${more && html`<button type="button" onClick=${more}>Show more</button>`}
      <span class="end">
        ${view === "table" && columns.length > 0 && html`<button type="button" onClick=${() => setArranging(true)}>Columns</button>`}
        <button type="button" onClick=${async () => copy(await whole(rows))}>Copy</button>
        <button type="button" onClick=${() => file("rows.ndjson", lines(rows), "application/x-ndjson")}>NDJSON</button>
        <button type="button" title=${CSV_TITLE} onClick=${() => file("rows.csv", csv(rows), "text/csv")}>CSV</button></span>
    </div>
    ${view === "table" && (columns.length > 0
      ? html`<${Table} label="Rows" rows=${rows} columns=${columns} widen=${(/** @type {string} */ key, /** @type {number} */ width) => setLayout({ ...layout, widths: { ...layout.widths, [key]: width } })} rowKey=${(/** @type {any} */ _, /** @type {number} */ index) => String(index)} open=${setChosen} />`
      : rows.length > 0 && html`<pre>${print(rows.slice(0, most), 2)}</pre>`)}
    ${view === "json" && html`<div class="scroll"><${Text} value=${rows} /></div>`}
    ${view === "tree" && html`<div class="scroll">${rows.slice(0, most).map((row, index) => html`<div class="card" key=${index}><${Tree} value=${row} open=${2} name=${`row ${index + 1}`} /></div>`)}
      ${rows.length > most && html`<button type="button" onClick=${() => setMost(most + 500)}>Show more</button>`}</div>`}
    ${view === "chart" && numeric.length > 0 && html`<div class="scroll"><${Chart} rows=${rows} names=${columns.map(({ key }) => key)} numeric=${numeric} /></div>`}
    ${isArranging && html`<${Columns} shown=${columns.map(({ key }) => key)} available=${available} of="results with these fields" layout=${layout} change=${setLayout} close=${() => setArranging(false)} />`}
    ${chosen && html`<${Dialog} title="Row" wide close=${() => setChosen(null)}><div class="scroll"><${Tree} value=${chosen} open=${3} /></div>
      <div class="actions"><button type="button" onClick=${() => copy(print(chosen, 2))}>Copy as JSON</button></div></${Dialog}>`}
  </section>`;
}
