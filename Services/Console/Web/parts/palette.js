// @ts-check
/** Going anywhere by typing: pages, databases, collections, and a document by its id. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { address, go, route } from "../route.js";
import { collectionNames } from "../schema.js";
import { titleOf } from "../store.js";
import { Dialog } from "./basics.js";
import { offered } from "./shell.js";

/** @param {{close: () => void, databases: string[]}} props */
export function Palette({ close, databases }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const [collections, setCollections] = useState(/** @type {string[]} */ ([]));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const { database } = route.value;
  useEffect(() => { if (database) collectionNames(database).then(setCollections, () => {}); }, [database]);

  const slash = typed.indexOf("/");
  const wanted = typed.toLowerCase();
  const places = [
    ...(slash > 0 ? [{ title: `Document ${typed.slice(slash + 1)} of ${typed.slice(0, slash)}`, kind: "document",
      to: address(database, "data", [typed.slice(0, slash), documentPart(typed.slice(slash + 1))]) }] : []),
    ...offered(database).map((one) => ({ title: one.title, kind: "page", to: address(database, one.page) })),
    ...collections.map((name) => ({ title: name, kind: "collection", to: address(database, "data", [name]) })),
    ...databases.map((id) => ({ title: titleOf(id) === id ? id : `${titleOf(id)} (${id})`, kind: "database", to: address(id, "overview") })),
  ].filter(({ title, kind }) => kind === "document" || title.toLowerCase().includes(wanted)).slice(0, 50);
  const choose = (/** @type {number} */ index) => { const place = places[index]; if (place) { close(); go(place.to); } };
  const move = (/** @type {number} */ step) => {
    const next = (at + step + places.length) % Math.max(1, places.length);
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  return html`<${Dialog} title="Go to" beside close=${close}>
    <input autofocus aria-label="Page, collection, or collection/id" placeholder="Page, collection, or collection/id" value=${typed}
      role="combobox" aria-expanded="true" aria-controls="places" aria-activedescendant=${`place-${at}`}
      onInput=${(/** @type {any} */ event) => { setTyped(event.currentTarget.value); setAt(0); }}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
        if (event.key === "ArrowDown") { event.preventDefault(); move(1); }
        else if (event.key === "ArrowUp") { event.preventDefault(); move(-1); }
        else if (event.key === "Enter") { event.preventDefault(); choose(at); }
      }} />
    <ul id="places" class="places" role="listbox" aria-label="Places" ref=${list}>${places.map((place, index) => html`
      <li key=${place.to} id=${`place-${index}`} role="option" aria-selected=${index === at} onClick=${() => choose(index)}>${place.title}<span class="quiet">${place.kind}</span></li>`)}
    </ul></${Dialog}>`;
}

/** An id as the address has it: JSON, so that texts and other ids stay apart. @param {string} text */
export function documentPart(text) {
  return /^[{["]|^-?\d+$/.test(text) ? text : JSON.stringify(text);
}
