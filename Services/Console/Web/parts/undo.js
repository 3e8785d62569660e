// @ts-check
/** Taking an operation back, by the changes that the log has of its documents. */

import { html, useState } from "../vendor/preact.js";
import { breath, call, CallError, client } from "../api.js";
import { print } from "../exact.js";
import { counted, grouped } from "../format.js";
import { deletingInserted, insertingAgain, takingBack } from "../reversal.js";

/** Statements of one request, and characters of their arguments: each request is all or nothing. */
const STATEMENTS = 200;
const CHARACTERS = 2 << 20;

/** @typedef {{statement: string, args: any}} Step */

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

/**
 * The statements that lead back, one a document. A document with a value that JSON cannot hold stays as it is: its former value is not known.
 * @param {Map<string, Record<string, any[]>>} found @returns {Generator<Step>}
 */
function* steps(found) {
  for (const [collection, { remove, insert, update }] of found) {
    for (const { id, changes, warnings } of remove) {
      if (!warnings) yield insertingAgain(collection, id, changes);
    }
    for (const { id, changes, warnings } of insert) {
      if (!warnings) yield deletingInserted(collection, id, changes);
    }
    for (const { id, changes, warnings } of update) {
      const back = warnings ? null : takingBack(collection, id, changes);
      if (back) yield back;
    }
  }
}

/** Sends statements unless another tab or user has sent the same part. Returns their number of documents; null if so. @param {string} database @param {string} key @param {Step[]} transaction @param {boolean} quiet */
async function sendOnce(database, key, transaction, quiet) {
  try {
    const { results } = await call("POST", "/api/v5/store/execute", { database, headers: { "Idempotency-Key": key }, body: { transaction }, quiet });
    return results.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.mutatedDocumentIds.length, 0);
  } catch (error) {
    if (error instanceof CallError && error.code === "QUERY-0307") return null;
    throw error;
  }
}

/**
 * Takes an operation back: what it removed is inserted, what it inserted is deleted, what it counted is counted back,
 * and each other field that it changed gets its old value. Documents and fields that others have changed since stay as
 * they are; counters that others have counted on keep what those have added. Each part is done once for all tabs and users.
 * @param {string} database @param {number} offset The operation's offset.
 * @param {(done: number, all: number) => void} [told]
 * @returns {Promise<{done: number, left: number, before: number}>} Documents that are as they were, that others have changed since, and that were undone before.
 */
export async function undo(database, offset, told = () => {}) {
  const { found, count } = await changesOf(database, offset);
  let [part, sent, done, before, size] = [0, 0, 0, 0, 0];
  /** @type {Step[]} */
  let waiting = [];
  const send = async () => {
    if (waiting.length === 0) return;
    const undone = await sendOnce(database, `undo/${offset}/${part}`, waiting, part > 0);
    if (undone === null) before += waiting.length;
    else done += undone;
    sent += waiting.length;
    part += 1;
    [waiting, size] = [[], 0];
    told(sent, count);
  };
  for (const step of steps(found)) {
    const length = print(step.args).length;
    if (waiting.length === STATEMENTS || size + length > CHARACTERS) await send();
    waiting.push(step);
    size += length;
  }
  await send();
  const unknown = [...found.values()].flatMap((all) => Object.values(all).flat()).filter(({ warnings }) => warnings).length;
  return { done, left: sent - done - before + unknown, before };
}

/**
 * Takes an operation back, all of it.
 * @param {string} database @param {any} answer Of the operation.
 */
export async function undoWhole(database, answer) {
  const { left, before } = await undo(database, Number(answer.transactionId));
  if (before > 0) throw new Error("it was undone before");
  if (left > 0) throw new Error("it was changed again meanwhile, or is gone");
}

/** The button that takes an operation back, and then its outcome. @param {{database: string, offset: number, title?: string}} props */
export function Undo({ database, offset, title = "Undo" }) {
  const [state, setState] = useState("");
  const act = async () => {
    setState("Undoing …");
    try {
      const { done, left, before } = await undo(database, offset, (sent, all) => setState(`Undoing ${grouped(sent)} of ${grouped(all)} …`));
      setState(`Undone: ${counted(done, "document")}${left > 0 ? `; ${grouped(left)} changed by others meanwhile` : ""}${before > 0 ? `; ${grouped(before)} undone before` : ""}`);
    } catch (error) { setState(`Not undone: ${/** @type {Error} */ (error).message}`); }
  };
  return state ? html`<b>${state}</b>` : html`<button type="button" onClick=${act}>${title}</button>`;
}
