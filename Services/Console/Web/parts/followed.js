// @ts-check
/**
 * The rows of a large result, kept up to date: they are read once, and then the log's changes name documents, of
 * which only those are asked for again. A live query would evaluate all of them at each change.
 */

import { breath, client, execute, executeRows } from "../api.js";
import { name, place } from "../dql.js";
import { kind, print, same } from "../exact.js";

/** Changed documents that are asked for by their ids; for more of them everything is read again. */
const ASKED = 500;

/** A text for an id, the same for equal ones. @param {any} id */
export function idKey(id) { return typeof id === "string" ? `"${id}` : print(id); }

/** Whether an id is among those of the keys: a test for many rows, which makes no key of a text. @param {Set<string>} keys @returns {(id: any) => boolean} */
export function among(keys) {
  const texts = new Set([...keys].filter((key) => key.startsWith("\"")).map((key) => key.slice(1)));
  const hasOthers = texts.size < keys.size;
  return (id) => typeof id === "string" ? texts.has(id) : hasOthers && keys.has(idKey(id));
}

const encoder = new TextEncoder();

/** Texts in the order of their UTF-8 bytes. @param {string} a @param {string} b */
function textOrder(a, b) {
  // Below the surrogates, the order of code units is that of bytes.
  if (!/[\ud800-\uffff]/.test(a) && !/[\ud800-\uffff]/.test(b)) return a < b ? -1 : a > b ? 1 : 0;
  const [left, right] = [encoder.encode(a), encoder.encode(b)];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) if (left[at] !== right[at]) return left[at] - right[at];
  return left.length - right.length;
}

/** The order of two values of one kind; null where only the server knows it. @param {any} a @param {any} b @returns {number | null} */
export function order(a, b) {
  const [left, right] = [kind(a), kind(b)];
  if (left === "text" && right === "text") return textOrder(a, b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return null;
}

/**
 * Rows after a change: those that are still found replace the former ones, the others go, new ones come to their
 * place. Null if a place is not known here.
 * @param {any[]} rows @param {Set<string>} changed Keys of the changed ids. @param {any[]} found The changed ones that fit.
 * @param {{path: string[] | null, isDescending: boolean, most: number}} sorting
 * @returns {any[] | null}
 */
export function merged(rows, changed, found, { path, isDescending, most }) {
  const left = new Map(found.map((row) => [idKey(row._id), row]));
  const valueOf = (/** @type {any} */ row) => path?.reduce((/** @type {any} */ value, part) => value?.[part], row);
  const isFull = rows.length >= most;
  const hasChanged = among(changed);
  let next = rows.slice();
  let gone = 0;
  for (let at = 0; at < rows.length; at += 1) {
    const id = rows[at]._id;
    if (!hasChanged(id)) continue;
    const now = left.get(idKey(id));
    const stays = now !== undefined && path !== null && same(valueOf(rows[at]), valueOf(now));
    // Another row comes after the last one, which only the server knows.
    if (now === undefined && isFull) return null;
    if (stays) left.delete(idKey(id));
    else gone += 1;
    next[at] = stays ? now : undefined;
  }
  if (gone > 0) next = next.filter((row) => row !== undefined);
  if (left.size > 0 && (path === null || isFull)) return null;
  for (const row of left.values()) {
    let [low, high] = [0, next.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const way = order(valueOf(next[middle]), valueOf(row));
      if (way === null || way === 0 && path?.[0] !== "_id") return null;
      if ((isDescending ? -way : way) < 0) low = middle + 1;
      else high = middle;
    }
    next.splice(low, 0, row);
  }
  return next;
}

/**
 * @param {string} database
 * @param {{collection: string, condition: string, statement: string, sort: string, most: number, signal: AbortSignal, told?: (count: number) => void, onConnection?: (state: any) => void}} wanted
 *   `condition` begins with WHERE, or is empty; `told` is called with the number of rows while they are read.
 * @returns {AsyncGenerator<{rows: any[], changed: Set<string>}>}
 */
export async function* followed(database, { collection, condition, statement, sort, most, signal, told, onConnection }) {
  const [, key] = /^(\w+|`(?:[^`]|``)+`)( DESC)?$/.exec(sort) ?? [];
  const sorting = { path: key !== undefined ? [key.replace(/^`|`$/g, "").replaceAll("``", "`")] : sort.replace(/ DESC$/, "") === place(collection, [""]) ? [""] : null, isDescending: / DESC$/.test(sort), most };
  const read = () => executeRows(database, statement, {}, { most: Infinity, signal, told, quiet: true });
  const first = await read();
  let { rows } = first;
  yield { rows, changed: new Set() };
  const all = condition.replace(/^\s*WHERE\s+/i, "");
  const some = `SELECT * FROM ${name(collection)} WHERE ${all ? `(${all}) AND ` : ""}_id IN :ids`;
  /** @type {Map<string, any>} */
  let ids = new Map();
  for await (const line of client(database).changes({ since: first.envelope.transactionId, follow: true, values: "none", collection: [collection], signal, onConnection })) {
    ids.set(idKey(line.id), line.id);
    await breath();
    if (!line.last) continue;
    const changed = new Set(ids.keys());
    let next = null;
    if (changed.size <= ASKED) {
      const { items } = await execute(database, some, { ids: [...ids.values()] }, { signal, quiet: true });
      next = merged(rows, changed, items, sorting);
    }
    rows = next ?? (await read()).rows;
    ids = new Map();
    yield { rows, changed };
  }
}
