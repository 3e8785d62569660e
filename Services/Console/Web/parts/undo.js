// @ts-check
/** Taking an operation back, by the old values that the log has of its documents. */

import { breath, call, client, execute } from "../api.js";
import { differences, name, update } from "../dql.js";
import { argument, print, same } from "../exact.js";
import { idKey } from "./followed.js";

/** Statements of one request, and characters of their arguments: each request is all or nothing. */
const STATEMENTS = 200;
const CHARACTERS = 2 << 20;
/** Documents of one INSERT or DELETE. */
const DOCUMENTS = 100;

/** @typedef {{statement: string, args: any, documents: number}} Step */

/** The changes of an operation by collection and method. @param {string} database @param {number} offset */
async function changesOf(database, offset) {
  /** @type {Map<string, Record<string, any[]>>} */
  const found = new Map();
  let count = 0;
  for await (const line of client(database).changes({ since: offset - 1, until: offset, values: "both" })) {
    await breath();
    if (Number(line.transactionId) !== offset) continue;
    if (!found.has(line.collection)) found.set(line.collection, { remove: [], insert: [], update: [] });
    found.get(line.collection)?.[line.method]?.push(line);
    count += 1;
  }
  return { found, count };
}

/** Those of the inserted documents that are as they were inserted. @param {string} database @param {string} collection @param {any[]} lines */
async function untouched(database, collection, lines) {
  const { items } = await execute(database, `SELECT * FROM ${name(collection)} WHERE _id IN :ids`, { ids: lines.map(({ id }) => id) }, { quiet: true });
  const now = new Map(items.map((/** @type {any} */ one) => [idKey(one._id), one]));
  return lines.filter(({ id, value }) => same(now.get(idKey(id)), value));
}

/** Parts of a list, as many as one statement takes. @template T @param {T[]} all @returns {T[][]} */
function inParts(all) {
  const parts = [];
  for (let at = 0; at < all.length; at += DOCUMENTS) parts.push(all.slice(at, at + DOCUMENTS));
  return parts;
}

/**
 * The statements that lead back.
 * @param {string} database @param {Map<string, Record<string, any[]>>} found @returns {AsyncGenerator<Step>}
 */
async function* steps(database, found) {
  for (const [collection, { remove, insert, update: changed }] of found) {
    for (const { oldValue } of remove) {
      yield { statement: `INSERT INTO ${name(collection)} DOCUMENTS (:d) ON ID CONFLICT DO NOTHING`, args: { d: argument(oldValue) }, documents: 1 };
    }
    for (const part of inParts(insert)) {
      const ids = (await untouched(database, collection, part)).map(({ id }) => id);
      yield { statement: `DELETE FROM ${name(collection)} WHERE _id IN :ids`, args: { ids }, documents: part.length };
    }
    for (const { id, oldValue, value } of changed) {
      const back = differences(value, oldValue);
      if (back.length > 0) yield { ...update(collection, id, back), documents: 1 };
    }
  }
}

/**
 * Takes an operation back: what it removed is inserted, what it inserted is deleted, and each field that it changed
 * gets its old value. Documents and fields that others have changed since stay as they are.
 * @param {string} database @param {number} offset The operation's offset.
 * @param {(done: number, all: number) => void} told
 * @returns {Promise<{done: number, left: number}>} Documents that are as they were, and those that others have changed since.
 */
export async function undo(database, offset, told) {
  const { found, count } = await changesOf(database, offset);
  let [sent, done, size] = [0, 0, 0];
  /** @type {Step[]} */
  let waiting = [];
  const send = async () => {
    if (waiting.length === 0) return;
    const transaction = waiting.map(({ statement, args }) => ({ statement, args }));
    const { results } = await call("POST", "/api/v5/store/execute", { database, body: { transaction }, quiet: sent > 0 });
    sent += waiting.reduce((sum, step) => sum + step.documents, 0);
    done += results.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.mutatedDocumentIds.length, 0);
    [waiting, size] = [[], 0];
    told(sent, count);
  };
  for await (const step of steps(database, found)) {
    const length = print(step.args).length;
    if (waiting.length === STATEMENTS || size + length > CHARACTERS) await send();
    waiting.push(step);
    size += length;
  }
  await send();
  return { done, left: sent - done };
}
