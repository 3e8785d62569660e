// @ts-check
/** The columns of a table as a person wants them: which, in which order, how wide. Kept in the browser. */

import { html, useMemo, useState } from "../vendor/preact.js";
import { kind } from "../exact.js";
import { keyText, preview } from "../format.js";
import { shape } from "../schema.js";
import { keep, kept } from "../store.js";
import { Dialog } from "./basics.js";
import { Cell } from "./value.js";

/** Rows whose fields and lengths decide about columns. */
const SAMPLE = 200;
/** A character's width in a cell, and its margins, in pixels: an estimate is enough to begin with. */
const CHARACTER = 8.2;
const MARGIN = 24;
const NARROWEST = 72;
const WIDEST = 320;
/** Ids are long and say little; a wider column is a drag away. */
const WIDEST_ID = 180;

/**
 * @typedef {object} Layout
 * @property {string[] | null} visible The fields that are shown, in their order; null for the most frequent ones.
 * @property {Record<string, number>} widths In pixels, of the columns that somebody has widened or narrowed.
 */

/**
 * The layout of a table.
 * @param {string} name Its name in the browser's storage.
 * @returns {[Layout, (next: Layout) => void]}
 */
export function useLayout(name) {
  const [changes, setChanges] = useState(0);
  const layout = useMemo(() => {
    const found = kept(`columns.${name}`, /** @type {any} */ (null));
    return /** @type {Layout} */ ({ visible: Array.isArray(found?.visible) ? found.visible : null, widths: found?.widths ?? {} });
  }, [name, changes]);
  return [layout, (next) => {
    keep(`columns.${name}`, next);
    setChanges((/** @type {number} */ n) => n + 1);
  }];
}

/** The width that most values of a field fit into. @param {string} key @param {any[]} rows */
function widthOf(key, rows) {
  const lengths = rows.map((row) => preview(row?.[key], 80).length).sort((a, b) => a - b);
  const most = lengths[Math.floor(lengths.length * 0.9)] ?? 0;
  const wanted = Math.max(most, key.length + 2) * CHARACTER + MARGIN;
  return Math.round(Math.max(NARROWEST, Math.min(key === "_id" ? WIDEST_ID : WIDEST, wanted)));
}

/** Rows by which the columns are chosen, and what changes with them. @param {any[]} rows */
function sampled(rows) {
  const sample = rows.length > SAMPLE ? rows.slice(0, SAMPLE) : rows;
  return { sample, ends: [sample.length, sample[0], sample[sample.length - 1]] };
}

/** The fields of the first level of rows, the most frequent ones first. @param {any[]} rows @returns {string[]} */
export function useFields(rows) {
  const { sample, ends } = sampled(rows);
  return useMemo(() => {
    const found = shape(sample, 1).map(({ path }) => path[0]);
    return found.includes("_id") ? ["_id", ...found.filter((key) => key !== "_id")] : found;
  }, ends);
}

/**
 * Columns of rows: the fields that the layout names, else the first ones.
 * @param {any[]} rows @param {string[]} available @param {number} most @param {Layout} layout
 */
export function useColumns(rows, available, most, layout) {
  const { sample, ends } = sampled(rows);
  const names = layout.visible ?? available.slice(0, most);
  const widths = useMemo(() => new Map(names.map((key) => [key, widthOf(key, sample)])), [...ends, names.join("\u0000")]);
  return names.map((key) => {
    const own = layout.widths[key];
    const natural = widths.get(key) ?? NARROWEST;
    return {
      key, title: keyText(key), width: own ? `${own}px` : `minmax(${natural}px, ${natural}fr)`,
      path: [key], value: (/** @type {any} */ row) => row?.[key],
      cell: (/** @type {any} */ row) => html`<${Cell} value=${row?.[key]} />`,
      right: ["integer", "double"].includes(kind(rows[0]?.[key])),
    };
  });
}

/** Which columns are shown, and in which order. @param {{shown: string[], available: string[], of: string, layout: Layout, change: (next: Layout) => void, close: () => void}} props `of`: whose columns they are. */
export function Columns({ shown, available, of, layout, change, close }) {
  const others = available.filter((key) => !shown.includes(key));
  const set = (/** @type {string[]} */ visible) => change({ ...layout, visible });
  const move = (/** @type {number} */ index, /** @type {number} */ step) => {
    const next = shown.slice();
    next.splice(index + step, 0, ...next.splice(index, 1));
    set(next);
  };
  const line = (/** @type {string} */ key, /** @type {number} */ index) => html`<li key=${key}>
    <label class="check"><input type="checkbox" checked=${index >= 0} disabled=${index >= 0 && shown.length === 1}
      onChange=${() => set(index >= 0 ? shown.filter((one) => one !== key) : [...shown, key])} />${keyText(key)}</label>
    ${index >= 0 && html`<span class="end"><button type="button" aria-label=${`${keyText(key)} further to the left`} disabled=${index === 0} onClick=${() => move(index, -1)}>↑</button>
      <button type="button" aria-label=${`${keyText(key)} further to the right`} disabled=${index === shown.length - 1} onClick=${() => move(index, 1)}>↓</button></span>`}</li>`;
  return html`<${Dialog} title="Columns" beside close=${close}>
    <p class="quiet">The edge of a column's title can be dragged. This browser keeps it for ${of}.</p>
    <ul class="columns scroll">${shown.map(line)}${others.map((key) => line(key, -1))}</ul>
    <div class="actions"><button type="button" class="main" onClick=${close}>Done</button>
      <button type="button" onClick=${() => change({ visible: null, widths: {} })}>As at first</button></div></${Dialog}>`;
}
