// @ts-check
/** An attachment: a picture where it is one, and its download, both by URLs that open it for some minutes. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { client } from "../api.js";
import { bytes } from "../format.js";
import { Problem } from "./basics.js";

/** Larger ones are fetched only when they are asked for. */
const SHOWN = 4 << 20;
/** URLs of one request. */
const SIGNED = 100;

/** The ids that a request will ask URLs of, by database. @type {Map<string, {ids: string[], urls: Promise<string[]>}>} */
const waiting = new Map();

/** A URL that opens an attachment for some minutes. Those of one page are asked for together. @param {string} database @param {string} id @returns {Promise<string>} */
async function signed(database, id) {
  let next = waiting.get(database);
  if (!next || next.ids.length === SIGNED) {
    /** @type {string[]} */
    const ids = [];
    next = { ids, urls: new Promise((resolve) => { setTimeout(resolve); }).then(() => {
      if (waiting.get(database)?.ids === ids) waiting.delete(database);
      return client(database).attachmentURLs(ids);
    }) };
    waiting.set(database, next);
  }
  const place = next.ids.push(id) - 1;
  return (await next.urls)[place];
}

/** @param {{database: string, name: string, token: any}} props */
export function Picture({ database, name, token }) {
  const [url, setURL] = useState(/** @type {string | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const length = Number(token.len);
  const fileName = token.metadata?.name ?? token.metadata?.filename ?? null;
  const type = token.metadata?.mime_type ?? null;
  const mayBePicture = length <= SHOWN && (type === null || String(type).startsWith("image/"));
  useEffect(() => {
    let isOver = false;
    setURL(null);
    if (mayBePicture) signed(database, token.id).then((made) => { if (!isOver) setURL(made); }).catch((error) => { if (!isOver) setProblem(error); });
    return () => { isOver = true; };
  }, [database, token.id]);
  const take = async () => {
    try {
      const link = document.createElement("a");
      link.href = `${await signed(database, token.id)}&filename=${encodeURIComponent(fileName ?? token.id)}`;
      link.click();
    } catch (error) { setProblem(error); }
  };
  return html`<figure class="picture">${url ? html`<img src=${url} alt=${`Attachment ${name}`} onError=${() => setURL(null)} />` : html`<div class="file" aria-hidden="true">file</div>`}
    <figcaption><b>${name}</b> ${[fileName === name ? null : fileName, type].filter(Boolean).join(", ")} <span class="quiet">${bytes(length)}</span> <button type="button" onClick=${take}>Download</button></figcaption>
    <${Problem} error=${problem} close=${() => setProblem(null)} /></figure>`;
}
