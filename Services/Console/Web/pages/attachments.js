// @ts-check
/** The attachments that a collection's documents refer to: pictures, sizes, the documents, a new one. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { client, streamRows } from "../api.js";
import { name } from "../dql.js";
import { isAttachment, print } from "../exact.js";
import { bytes, counted, grouped, idText, keyText } from "../format.js";
import { address, refine, route } from "../route.js";
import { collectionNames } from "../schema.js";
import { note, useShared } from "../store.js";
import { copy, Empty, Problem, useLoaded } from "../parts/basics.js";
import { Picture } from "../parts/attachment.js";

/** Documents of one collection that are looked at, until somebody wants more. */
const LOOKED = 10_000;
/** Time between two drawings of what was found so far. */
const DRAWN_MS = 250;
/** Pictures shown at first. */
const SHOWN = 60;

/** @param {any} value @param {string} path @param {(path: string, token: any) => void} found */
function look(value, path, found) {
  if (value === null || typeof value !== "object") return;
  if (isAttachment(value)) found(path, value);
  else for (const key of Object.keys(value)) look(value[key], path ? `${path}.${keyText(key)}` : keyText(key), found);
}

/**
 * @typedef {object} Found
 * @property {{collection: string, id: any, path: string, token: any}[]} all
 * @property {number} documents Documents that were looked at.
 * @property {string | null} at The collection that is looked at now; null when the search has ended.
 * @property {string[]} cut Collections of which only the first documents were looked at.
 * @property {any} error
 */

/**
 * Looks for attachments in the documents of collections, one after the other, and tells what it has found so far.
 * @param {string} database @param {string[] | null} collections Null while they are not known. @param {number} most Documents of each.
 * @returns {Found & {again: () => void}}
 */
function useFound(database, collections, most) {
  const nothing = { all: [], documents: 0, at: "", cut: [], error: null };
  const [state, setState] = useState(/** @type {Found} */ (nothing));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    setState(nothing);
    if (!collections) return undefined;
    const stop = new AbortController();
    /** @type {Found} */
    const found = { ...nothing };
    /** @type {Found["all"]} */
    const all = [];
    const draw = (/** @type {any} */ error = null) => setState({ ...found, all: all.slice(), error });
    let drawn = performance.now();
    (async () => {
      for (const one of collections) {
        found.at = one;
        let count = 0;
        for await (const row of streamRows(database, `SELECT * FROM ${name(one)}`, {}, { signal: stop.signal, quiet: true })) {
          if (count === most) { found.cut = [...found.cut, one]; break; }
          count += 1;
          found.documents += 1;
          look(row, "", (path, token) => all.push({ collection: one, id: row._id, path, token }));
          if (performance.now() - drawn > DRAWN_MS) { drawn = performance.now(); draw(); }
        }
      }
      found.at = null;
      draw();
    })().catch((error) => { if (!stop.signal.aborted) { found.at = null; draw(error); } });
    return () => stop.abort();
  }, [database, collections?.join("\u0000"), most, turn]);
  return { ...state, again: () => setTurn((/** @type {number} */ n) => n + 1) };
}

/** @param {{database: string}} props */
export function Attachments({ database }) {
  const { query } = useShared(route);
  const names = useLoaded(() => collectionNames(database), [database]);
  const [most, setMost] = useState(SHOWN);
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const collection = query.collection ?? "";
  const [looked, setLooked] = useState(LOOKED);
  const found = useFound(database, collection ? [collection] : names.value, looked);
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
  const total = found.all.reduce((sum, one) => sum + Number(one.token.len), 0);
  const isLooking = found.at !== null && !names.error;
  const sum = `${counted(found.all.length, "attachment")}, ${bytes(total)}`;
  const part = `in ${counted(found.documents, "document")}`;
  return html`<div class="page attachments"><div class="bar"><h1>Attachments</h1>
      <label>Collection <select value=${collection} onChange=${(/** @type {any} */ event) => refine({ collection: event.currentTarget.value })}><option value="">all</option>
        ${(names.value ?? []).slice(0, 500).map((/** @type {string} */ one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <span class="count" role="status">${isLooking ? `Looking${found.at ? ` through ${found.at}` : ""} … ${found.all.length > 0 ? `${sum} so far, ` : ""}${part}` : names.error || found.error ? "" : `${sum} ${part}`}</span>
      <span class="end"><label class="button">Upload a file<input class="hidden" type="file" onChange=${upload} /></label></span></div>
    <${Problem} error=${problem} close=${() => setProblem(null)} /><${Problem} error=${found.error ?? names.error} retry=${names.error ? names.again : found.again} />
    ${found.cut.length > 0 && html`<p class="warning">Only the first ${grouped(looked)} documents of ${found.cut.slice(0, 5).join(", ")}${found.cut.length > 5 ? " and others" : ""} were looked at. <button type="button" onClick=${() => setLooked(looked * 10)}>Look further</button></p>`}
    ${made && html`<div class="card"><p>Put this token into a document, as in <code>INSERT INTO COLLECTION stations (plan ATTACHMENT) DOCUMENTS (:d)</code>. Until then only who may read everything finds the file.</p><pre tabIndex="0">${print(made, 2)}</pre><button type="button" onClick=${() => copy(print(made))}>Copy</button></div>`}
    ${!isLooking && !found.error && !names.error && found.all.length === 0 && html`<${Empty} title=${found.cut.length > 0 ? "No attachments so far" : "No attachments"}><p>A document that has one shows it here, as a picture if it is one.</p></${Empty}>`}
    <div class="pictures">${found.all.slice(0, most).map((one) => html`<div key=${`${one.collection}/${print(one.id)}/${one.path}`}><${Picture} database=${database} name=${one.path} token=${one.token} />
      <a href=${address(database, "data", [one.collection, print(one.id)])}>${one.collection} / ${idText(one.id)}</a></div>`)}</div>
    ${found.all.length > most && html`<button type="button" onClick=${() => setMost(most + SHOWN)}>Show more</button>`}</div>`;
}
