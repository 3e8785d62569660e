// @ts-check
/** The attachments that a collection's documents refer to: pictures, sizes, the documents, a new one. */

import { html, useState } from "../vendor/preact.js";
import { call, client } from "../api.js";
import { print } from "../exact.js";
import { bytes, counted, idText } from "../format.js";
import { address, refine, route } from "../route.js";
import { collectionNames } from "../schema.js";
import { note, useShared } from "../store.js";
import { copy, Empty, Problem, progress, useLoaded } from "../parts/basics.js";
import { Picture } from "../parts/attachment.js";

/** Attachments of one page. */
const SHOWN = 60;

/**
 * The attachments that documents refer to, page by page.
 * @param {string} database @param {string} collection Empty for all. @param {number} pages
 */
function useListed(database, collection, pages) {
  return useLoaded(async (signal) => {
    /** @type {any} */
    let last = { next: null };
    const all = [];
    for (let page = 0; page < pages; page += 1) {
      const query = new URLSearchParams({ limit: String(SHOWN), ...(collection ? { collection } : {}), ...(last.next ? { after: last.next } : {}) });
      last = await call("GET", `/api/v5/attachments?${query}`, { database, signal, quiet: true });
      all.push(...last.attachments);
      if (!last.next) break;
    }
    return { all, count: Number(last.count), bytes: Number(last.bytes), isWhole: !last.next };
  }, [database, collection, pages]);
}

/** @param {{database: string}} props */
export function Attachments({ database }) {
  const { query } = useShared(route);
  const names = useLoaded(() => collectionNames(database), [database]);
  const [pages, setPages] = useState(1);
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const collection = query.collection ?? "";
  const found = useListed(database, collection, pages);
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
  return html`<div class="page attachments"><div class="bar"><h1>Attachments</h1>
      <label>Collection <select value=${collection} onChange=${(/** @type {any} */ event) => { setPages(1); refine({ collection: event.currentTarget.value }); }}><option value="">all</option>
        ${(names.value ?? []).slice(0, 500).map((/** @type {string} */ one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <span class="count" role="status">${found.isLoading ? "Looking …" : progress(found, ({ count, bytes: size }) => `${counted(count, "attachment")}, ${bytes(size)}`)}</span>
      <span class="end"><label class="button">Upload a file<input class="hidden" type="file" onChange=${upload} /></label></span></div>
    <${Problem} error=${problem} close=${() => setProblem(null)} /><${Problem} error=${found.error ?? names.error} retry=${() => { found.again(); names.again(); }} />
    ${made && html`<div class="card"><p>Put this token into a document, as in <code>INSERT INTO COLLECTION stations (plan ATTACHMENT) DOCUMENTS (:d)</code>. Until then only who may read everything finds the file.</p><pre tabIndex="0">${print(made, 2)}</pre><button type="button" onClick=${() => copy(print(made))}>Copy</button></div>`}
    ${found.value?.count === 0 && html`<${Empty} title="No attachments"><p>A document that has one shows it here, as a picture if it is one.</p></${Empty}>`}
    <div class="pictures">${(found.value?.all ?? []).map((/** @type {any} */ one) => html`<div key=${`${one.collection}/${print(one.id)}/${one.attachment.id}`}>
      <${Picture} database=${database} name=${one.name ?? "attachment"} token=${{ ...one.attachment, metadata: { ...(one.name ? { name: one.name } : {}), ...(one.type ? { mime_type: one.type } : {}) } }} />
      <a href=${address(database, "data", [one.collection, print(one.id)])}>${one.collection} / ${idText(one.id)}</a></div>`)}</div>
    ${found.value && !found.value.isWhole && html`<button type="button" disabled=${found.isLoading} onClick=${() => setPages(pages + 1)}>Show more</button>`}</div>`;
}
