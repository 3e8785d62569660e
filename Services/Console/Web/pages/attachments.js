// @ts-check
/** The attachments that a collection's documents refer to: pictures, sizes, the documents, a new one. */

import { html, useState } from "../vendor/preact.js";
import { client, execute } from "../api.js";
import { name } from "../dql.js";
import { isAttachment, print } from "../exact.js";
import { bytes, counted, idText, keyText } from "../format.js";
import { address, refine, route } from "../route.js";
import { collectionNames } from "../schema.js";
import { note, useShared } from "../store.js";
import { copy, Empty, Problem, useLoaded } from "../parts/basics.js";
import { Picture } from "../parts/attachment.js";

/** Documents of one collection that are looked at. */
const SAMPLE = 10_000;
/** Pictures shown at first. */
const SHOWN = 60;

/** @param {any} value @param {string} path @param {(path: string, token: any) => void} found */
function look(value, path, found) {
  if (value === null || typeof value !== "object") return;
  if (isAttachment(value)) found(path, value);
  else for (const key of Object.keys(value)) look(value[key], path ? `${path}.${keyText(key)}` : keyText(key), found);
}

/** @param {{database: string}} props */
export function Attachments({ database }) {
  const { query } = useShared(route);
  const names = useLoaded(() => collectionNames(database), [database]);
  const [most, setMost] = useState(SHOWN);
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const collection = query.collection ?? "";
  const found = useLoaded(async (signal) => {
    /** @type {{collection: string, id: any, path: string, token: any}[]} */
    const all = [];
    const wanted = collection ? [collection] : (names.value ?? []).slice(0, 20);
    for (const one of wanted) {
      const { items } = await execute(database, `SELECT * FROM ${name(one)} LIMIT ${SAMPLE}`, {}, { signal, quiet: true });
      for (const row of items) look(row, "", (path, token) => all.push({ collection: one, id: row._id, path, token }));
    }
    return all;
  }, [database, collection, names.value]);
  const upload = async (/** @type {any} */ event) => {
    const [file] = event.currentTarget.files;
    if (!file) return;
    setProblem(null);
    try {
      const { id, len } = await client(database).upload(file);
      setMade({ id, len, metadata: { name: file.name } });
      note(`${file.name} is stored`);
    } catch (error) { setProblem(error); }
  };
  const total = (found.value ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + Number(one.token.len), 0);
  return html`<div class="page attachments"><div class="bar"><h1>Attachments</h1>
      <label>Collection <select value=${collection} onChange=${(/** @type {any} */ event) => refine({ collection: event.currentTarget.value })}><option value="">the first twenty</option>
        ${(names.value ?? []).slice(0, 500).map((/** @type {string} */ one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <span class="count" role="status">${found.value ? `${counted(found.value.length, "attachment")}, ${bytes(total)}` : "Looking …"}</span>
      <span class="end"><label class="button">Upload a file<input class="hidden" type="file" onChange=${upload} /></label></span></div>
    <${Problem} error=${problem ?? found.error ?? names.error} retry=${found.again} close=${() => setProblem(null)} />
    ${made && html`<div class="card"><p>Put this token into a document, as in <code>INSERT INTO COLLECTION stations (plan ATTACHMENT) DOCUMENTS (:d)</code>. Until then only who may read everything finds the file.</p><pre tabIndex="0">${print(made, 2)}</pre><button type="button" onClick=${() => copy(print(made))}>Copy</button></div>`}
    ${found.value?.length === 0 && html`<${Empty} title="No attachments"><p>A document that has one shows it here, as a picture if it is one.</p></${Empty}>`}
    <div class="pictures">${(found.value ?? []).slice(0, most).map((/** @type {any} */ one) => html`<div key=${`${one.collection}/${print(one.id)}/${one.path}`}><${Picture} database=${database} name=${one.path} token=${one.token} />
      <a href=${address(database, "data", [one.collection, print(one.id)])}>${one.collection} / ${idText(one.id)}</a></div>`)}</div>
    ${(found.value?.length ?? 0) > most && html`<button type="button" onClick=${() => setMost(most + SHOWN)}>Show more</button>`}</div>`;
}
