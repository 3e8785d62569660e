// @ts-check
/** What can be done with a value of a table: filter by it, copy it, open its document. */

import { html, useEffect, useLayoutEffect, useRef } from "../vendor/preact.js";
import { isFilter } from "../dql.js";
import { kind, print } from "../exact.js";
import { pathText, preview } from "../format.js";
import { copy } from "./basics.js";

/**
 * A menu below a cell. Arrows move in it; Escape, or a look elsewhere, closes it.
 * @param {{path: string[], value: any, box: DOMRect, pick: (path: string[], value: any) => void, open: () => void, close: () => void}} props
 */
export function ValueMenu({ path, value, box, pick, open, close }) {
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  const back = () => { /** @type {HTMLElement | null} */ (document.querySelector("[role=grid]"))?.focus({ preventScroll: true }); close(); };
  useLayoutEffect(() => {
    const found = element.current;
    if (!found) return;
    const { width, height } = found.getBoundingClientRect();
    found.style.left = `${Math.max(4, Math.min(box.left, innerWidth - width - 8))}px`;
    found.style.top = `${box.bottom + height + 4 > innerHeight ? Math.max(4, box.top - height - 2) : box.bottom + 2}px`;
    found.querySelector("button")?.focus();
  }, []);
  useEffect(() => {
    // A press elsewhere closes it, also where nothing takes the focus; so does a table that scrolls away under it.
    const elsewhere = (/** @type {Event} */ event) => { if (!element.current?.contains(/** @type {Node} */ (event.target))) close(); };
    addEventListener("resize", close);
    addEventListener("pointerdown", elsewhere, true);
    addEventListener("wheel", elsewhere, { capture: true, passive: true });
    return () => {
      removeEventListener("resize", close);
      removeEventListener("pointerdown", elsewhere, true);
      removeEventListener("wheel", elsewhere, { capture: true });
    };
  }, []);
  const text = value === undefined ? "nothing" : preview(value, 60);
  const actions = /** @type {[string, () => void][]} */ ([
    ...(isFilter(value) ? [[value === undefined ? `Only documents without ${pathText(path)}` : value === null ? `Only where ${pathText(path)} is null` : `Only where ${pathText(path)} is ${text}`, () => pick(path, value)]] : []),
    ["Open the document", open],
    ...(value === undefined ? [] : [["Copy the value", () => { copy(kind(value) === "text" ? value : print(value, 2)); }]]),
  ]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const all = /** @type {HTMLElement[]} */ ([...(element.current?.querySelectorAll("button") ?? [])]);
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); back(); }
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      all[(at + (event.key === "ArrowDown" ? 1 : all.length - 1)) % all.length].focus();
    }
  };
  return html`<div class="menu" ref=${element} onKeyDown=${keys}
      onfocusout=${(/** @type {FocusEvent} */ event) => { if (!element.current?.contains(/** @type {Node | null} */ (event.relatedTarget))) close(); }}>
    <div role="menu" aria-label=${`The value of ${pathText(path)}`}>${actions.map(([title, act]) => html`
      <button key=${title} type="button" role="menuitem" onClick=${() => { back(); act(); }}>${title}</button>`)}</div></div>`;
}
