// @ts-check
/** An attachment: a picture where it is one, fetched with the page's credential, and its download. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { client } from "../api.js";
import { bytes } from "../format.js";
import { Problem } from "./basics.js";
import { save } from "./results.js";

/** Larger ones are fetched only when they are asked for. */
const SHOWN = 4 << 20;

/** The picture type that bytes begin like; null for anything else. SVG is left out: it may hold scripts. @param {Uint8Array} head */
export function pictureType(head) {
  const starts = (/** @type {number[]} */ ...codes) => codes.every((code, index) => head[index] === code);
  if (starts(0x89, 0x50, 0x4e, 0x47)) return "image/png";
  if (starts(0xff, 0xd8, 0xff)) return "image/jpeg";
  if (starts(0x47, 0x49, 0x46, 0x38)) return "image/gif";
  if (starts(0x52, 0x49, 0x46, 0x46) && head[8] === 0x57 && head[9] === 0x45) return "image/webp";
  return null;
}

/** @param {{database: string, name: string, token: any}} props */
export function Picture({ database, name, token }) {
  const [url, setURL] = useState(/** @type {string | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const length = Number(token.len);
  const fileName = token.metadata?.name ?? token.metadata?.filename ?? null;
  useEffect(() => {
    if (length > SHOWN) return undefined;
    const stop = new AbortController();
    /** @type {string | null} */
    let made = null;
    client(database).download(token.id, { signal: stop.signal }).then(async (blob) => {
      const head = new Uint8Array(await blob.slice(0, 16).arrayBuffer());
      const type = pictureType(head);
      if (!type || stop.signal.aborted) return;
      made = URL.createObjectURL(new Blob([blob], { type }));
      setURL(made);
    }).catch((error) => { if (!stop.signal.aborted) setProblem(error); });
    return () => { stop.abort(); if (made) URL.revokeObjectURL(made); };
  }, [database, token.id]);
  const take = async () => {
    try {
      save(fileName ?? token.id, [await client(database).download(token.id)], "application/octet-stream");
    } catch (error) { setProblem(error); }
  };
  return html`<figure class="picture">${url ? html`<img src=${url} alt=${`Attachment ${name}`} />` : html`<div class="file" aria-hidden="true">file</div>`}
    <figcaption><b>${name}</b> ${[fileName === name ? null : fileName, token.metadata?.mime_type].filter(Boolean).join(", ")} <span class="quiet">${bytes(length)}</span> <button type="button" onClick=${take}>Download</button></figcaption>
    <${Problem} error=${problem} close=${() => setProblem(null)} /></figure>`;
}
