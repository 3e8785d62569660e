// @ts-check
/** Taking an operation back, by the changes that the log has of its documents. */

import { breath, call, client, execute } from "../api.js";
import { name } from "../dql.js";
import { print, same } from "../exact.js";
import { inserted, insertingAgain, takingBack } from "../reversal.js";
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
  for await (const line of client(database).changes({ since: offset - 1, until: offset, values: "changes" })) {
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
  return lines.filter(({ id, changes }) => same(now.get(idKey(id)), inserted(id, changes)));
}

/** Parts of a list, as many as one statement takes. @template T @param {T[]} all @returns {T[][]} */
function inParts(all) {
  const parts = [];
  for (let at = 0; at < all.length; at += DOCUMENTS) parts.push(all.slice(at, at + DOCUMENTS));
  return parts;
}

/**
 * The statements that lead back. A document with a value that JSON cannot hold stays as it is: its former value is not known.
 * @param {string} database @param {Map<string, Record<string, any[]>>} found @returns {AsyncGenerator<Step>}
 */
async function* steps(database, found) {
  for (const [collection, { remove, insert, update: changed }] of found) {
    for (const { id, changes, warnings } of remove) {
      if (!warnings) yield { ...insertingAgain(collection, id, changes), documents: 1 };
    }
    for (const part of inParts(insert)) {
      const ids = (await untouched(database, collection, part)).map(({ id }) => id);
      yield { statement: `DELETE FROM ${name(collection)} WHERE _id IN :ids`, args: { ids }, documents: part.length };
    }
    for (const { id, changes, warnings } of changed) {
      const back = warnings ? null : takingBack(collection, id, changes);
      if (back) yield { ...back, documents: 1 };
    }
  }
}

/**
 * Takes an operation back: what it removed is inserted, what it inserted is deleted, what it counted is counted back,
 * and each other field that it changed gets its old value. Documents and fields that others have changed since stay as
 * they are; counters that others have counted on keep what those have added.
 * @param {string} database @param {number} offset The operation's offset.
 * @param {(done: number, all: number) => void} [told]
 * @returns {Promise<{done: number, left: number}>} Documents that are as they were, and those that others have changed since.
 */
export async function undo(database, offset, told = () => {}) {
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
  const unknown = [...found.values()].flatMap(({ remove, update }) => [...remove, ...update]).filter(({ warnings }) => warnings).length;
  return { done, left: sent - done + unknown };
}

/**
 * Takes an operation back, all of it.
 * @param {string} database @param {any} answer Of the operation.
 */
export async function undoWhole(database, answer) {
  const { left } = await undo(database, Number(answer.transactionId));
  if (left > 0) throw new Error("it was changed again meanwhile, or is gone");
}
