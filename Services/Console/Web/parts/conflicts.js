// @ts-check
/** Concurrent values: writes that knew nothing of each other, with who wrote them and when, and a choice. */

import { html, useState } from "../vendor/preact.js";
import { pathID, pathName } from "/mimeo.js";
import { call, execute, serves } from "../api.js";
import { by, useDevices } from "../author.js";
import { conflictChoice } from "../dql.js";
import { print } from "../exact.js";
import { counted, grouped, idText, pathText, preview } from "../format.js";
import { address } from "../route.js";
import { note } from "../store.js";
import { Empty, Problem, Time, useLoaded } from "./basics.js";

const ROUTE = "/api/v5/conflicts/{collection}";

/** @param {string} database @param {string} collection @param {any} [id] */
export async function conflictsOf(database, collection, id) {
  if (!await serves(ROUTE)) return null;
  const path = `/api/v5/conflicts/${pathName(collection)}`;
  const part = id === undefined ? "?limit=1000" : `/${pathID(id)}`;
  return call("GET", path + part, { database, quiet: true });
}

/** Writes that knew nothing of each other, in words. @param {any[]} offsets Those of the other writes, as far as they are known. */
export function atTheSameTime(offsets) {
  return `at the same time as ${offsets.length > 0 ? `offset ${offsets.map((one) => grouped(Number(one))).join(" and ")}` : "an earlier write"}`;
}

/**
 * The fields of a document that have several values. Each can be chosen; that is a write of the field.
 * @param {{database: string, collection: string, id: any, offset: number, mayWrite?: boolean}} props
 */
export function Conflicts({ database, collection, id, offset, mayWrite }) {
  const found = useLoaded(() => conflictsOf(database, collection, id), [database, collection, print(id), offset]);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  useDevices(database);
  /** @type {any[]} */
  const fields = found.value?.fields ?? [];
  const choose = async (/** @type {any} */ field, /** @type {any} */ one) => {
    setBusy(true);
    setProblem(null);
    try {
      const shown = field.values.find((/** @type {any} */ other) => other.shown).value;
      const made = conflictChoice(collection, id, field, shown, one.value);
      const { mutatedDocumentIds } = await execute(database, made.statement, made.args);
      if (mutatedDocumentIds.length === 0) throw Object.assign(new Error("Not chosen: somebody has changed the field meanwhile"), { code: "CHANGED" });
      note(`${pathText(field.path)} is ${preview(one.value, 40)}`);
    } catch (error) { setProblem(error); }
    setBusy(false);
    found.again();
  };
  if (fields.length === 0) return html`<${Problem} error=${found.error} retry=${found.again} />`;
  return html`<section class="conflicts" aria-label="Concurrent values"><header><h2>${counted(fields.length, "field")} with concurrent values</h2>
      <p>They were written by devices that did not know of each other. The latest one shows until somebody writes the field; a choice is such a write.</p></header>
    <${Problem} error=${problem} close=${() => setProblem(null)} />
    ${fields.map((field) => html`<div class="conflict-field" key=${field.path.join("\u0000")}><h3><code>${pathText(field.path)}</code></h3>
      <ul>${field.values.map((/** @type {any} */ one, /** @type {number} */ index) => html`<li key=${index} class=${one.shown ? "shown" : ""}>
        <span class="what">${preview(one.value, 300)}</span>
        <span class="quiet"><b>${by(one)}</b>, <${Time} at=${Date.parse(one.time)} />${one.shown ? ", shows now" : ""}</span>
        ${mayWrite && html`<button type="button" disabled=${isBusy} aria-label=${`Keep ${preview(one.value, 40)} in ${pathText(field.path)}`} onClick=${() => choose(field, one)}>Keep this</button>`}</li>`)}</ul></div>`)}</section>`;
}

/** The documents of a collection that have concurrent values. @param {{database: string, collection: string, found: any}} props */
export function ConflictList({ database, collection, found }) {
  /** @type {any[]} */
  const documents = found.value?.documents ?? [];
  return html`<div class="scroll"><${Problem} error=${found.error} retry=${found.again} />
    ${documents.length > 0 ? html`<table class="plain-table"><caption>${counted(documents.length, "document")}${found.value.more ? ", and more" : ""}: written by devices that did not know of each other</caption>
      <thead><tr><th scope="col">Document</th><th scope="col">Fields</th></tr></thead><tbody>${documents.map((one) => html`<tr key=${print(one.id)}>
        <th scope="row"><a href=${address(database, "data", [collection, print(one.id)])}>${idText(one.id)}</a></th>
        <td>${one.paths.map((/** @type {string[]} */ path) => html`<code class="badge" key=${path.join("\u0000")}>${pathText(path)}</code>`)}</td></tr>`)}</tbody></table>`
    : !found.value && found.isLoading ? html`<p class="quiet">Looking …</p>`
    : !found.error && html`<${Empty} title="No concurrent values"><p>Two devices that write one field without knowing of each other leave both values here, until somebody chooses.</p></${Empty}>`}</div>`;
}
