// @ts-check
/** A list of one kind of things as a card, and a form in a dialog. */

import { html, useState } from "../vendor/preact.js";
import { Dialog, Looking, Problem } from "./basics.js";

/** @param {{title: string, found: any, columns: [string, (row: any) => any][], rows: any[] | undefined, empty: string, children?: any}} props */
export function Section({ title, found, columns, rows, empty, children }) {
  return html`<section class="card" aria-label=${title}><header><h2>${title}</h2><span class="end">${children}</span></header>
    <${Problem} error=${found.error} retry=${found.again} />
    <${Looking} found=${{ value: rows, error: found.error }} />
    ${rows && (rows.length === 0 ? html`<p class="quiet">${empty}</p>` : html`<table class="plain-table"><thead><tr>${columns.map(([title], index) => html`<th key=${index} scope="col">${title || html`<span class="hidden">More</span>`}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.id ?? row.name}>${columns.map(([, cell], index) => html`<td key=${index}>${cell(row)}</td>`)}</tr>`)}</tbody></table>`)}</section>`;
}

/** A form in a dialog, with its error at its place. @param {{title: string, close: () => void, send: (form: FormData) => Promise<any>, act: string, children?: any}} props */
export function FormDialog({ title, close, send, act, children }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    setProblem(null);
    try { await send(new FormData(event.currentTarget)); } catch (error) { setProblem(error); }
  };
  return html`<${Dialog} title=${title} close=${close}><form onSubmit=${submit}>${children}<${Problem} error=${problem} close=${() => setProblem(null)} />
    <div class="actions"><button type="submit" class="main">${act}</button><button type="button" onClick=${close}>Cancel</button></div></form></${Dialog}>`;
}
