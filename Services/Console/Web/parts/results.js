// @ts-check
/** The rows of a statement: as a table, as JSON, as a chart; whole, and to be taken away. */

import { html, useState } from "../vendor/preact.js";
import { kind, print } from "../exact.js";
import { counted } from "../format.js";
import { shape } from "../schema.js";
import { note } from "../store.js";
import { copy } from "./basics.js";
import { Chart } from "./chart.js";
import { useColumns, useLayout } from "./columns.js";
import { Table } from "./table.js";
import { Text, Tree } from "./value.js";
import { Dialog } from "./basics.js";

/** Columns that are shown. */
const COLUMNS = 12;
/** Rows whose JSON is shown at first: more is a click away. */
const SHOWN = 50;

/** Gives a text to the browser as a file. @param {string} name @param {BlobPart[]} parts @param {string} type */
export function save(name, parts, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
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

/** Rows as CSV, with the first level of fields as columns. @param {any[]} rows */
export function csv(rows) {
  const columns = shape(rows, 1).map(({ path }) => path[0]);
  return [columns.map(csvCell).join(","), ...rows.map((row) => columns.map((key) => csvCell(row?.[key])).join(","))].join("\r\n");
}

/**
 * @param {{rows: any[], view: string, setView: (view: string) => void, open?: (row: any) => void, more?: (() => void) | null, children?: any}} props
 *   `more`: shows more rows, where there are more.
 */
export function Results({ rows, view, setView, open, more, children }) {
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const [most, setMost] = useState(SHOWN);
  const [layout, setLayout] = useLayout(null);
  const { columns } = useColumns(rows, COLUMNS, layout);
  const sample = rows.slice(0, 200);
  const numeric = columns.filter(({ key }) => key !== "_id" && sample.some((row) => ["integer", "double"].includes(kind(row?.[key])))).map(({ key }) => key);
  const file = (/** @type {string} */ name, /** @type {any[]} */ parts, /** @type {string} */ type) => {
    save(name, parts, type);
    if (more) note(`The file has the first ${counted(rows.length, "row")}; there are more`);
  };
  const lines = () => rows.map((row) => `${print(row)}\n`);
  return html`<section class="results" aria-label="Result">
    <div class="bar">
      <div class="tabs" role="tablist" aria-label="View of the result">${["table", "tree", "json", ...(numeric.length > 0 ? ["chart"] : [])].map((name) => html`
        <button key=${name} type="button" role="tab" aria-selected=${view === name} onClick=${() => setView(name)}>${{ table: "Table", tree: "Tree", json: "JSON", chart: "Chart" }[name]}</button>`)}</div>
      <span class="count">${more ? "first " : ""}${counted(rows.length, "row")}</span>
      ${more && html`<button type="button" onClick=${more}>Show more</button>`}
      ${children}
      <span class="end">
        <button type="button" onClick=${() => copy(print(rows, 2))}>Copy</button>
        <button type="button" onClick=${() => file("rows.ndjson", lines(), "application/x-ndjson")}>NDJSON</button>
        <button type="button" title=${CSV_TITLE} onClick=${() => file("rows.csv", [csv(rows)], "text/csv")}>CSV</button></span>
    </div>
    ${view === "table" && (columns.length > 0
      ? html`<${Table} label="Rows" rows=${rows} columns=${columns} widen=${(/** @type {string} */ key, /** @type {number} */ width) => setLayout({ ...layout, widths: { ...layout.widths, [key]: width } })} rowKey=${(/** @type {any} */ _, /** @type {number} */ index) => String(index)} open=${open ?? setChosen} />`
      : rows.length > 0 && html`<pre>${print(rows.slice(0, most), 2)}</pre>`)}
    ${view === "json" && html`<div class="scroll"><${Text} value=${rows} /></div>`}
    ${view === "tree" && html`<div class="scroll">${rows.slice(0, most).map((row, index) => html`<div class="card" key=${index}><${Tree} value=${row} open=${2} name=${`row ${index + 1}`} /></div>`)}
      ${rows.length > most && html`<button type="button" onClick=${() => setMost(most + 500)}>Show more</button>`}</div>`}
    ${view === "chart" && numeric.length > 0 && html`<div class="scroll"><${Chart} rows=${rows} names=${columns.map(({ key }) => key)} numeric=${numeric} /></div>`}
    ${chosen && html`<${Dialog} title="Row" wide close=${() => setChosen(null)}><div class="scroll"><${Tree} value=${chosen} open=${3} /></div>
      <div class="actions"><button type="button" onClick=${() => copy(print(chosen, 2))}>Copy as JSON</button></div></${Dialog}>`}
  </section>`;
}
