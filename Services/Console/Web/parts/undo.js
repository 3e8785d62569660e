// @ts-check
/** Taking an operation back, by the old values that the log has of its documents. */

import { call, client } from "../api.js";
import { differences, name, update } from "../dql.js";

/** Statements of one request: each request is all or nothing. */
const BATCH = 200;
/** Documents of one INSERT or DELETE. */
const DOCUMENTS = 100;

/**
 * Takes an operation back: what it removed is inserted, what it inserted is deleted, and each field that it changed
 * gets its old value, if it still has the one that the operation gave it.
 * @param {string} database @param {number} offset The operation's offset.
 * @param {(done: number, all: number) => void} told
 * @returns {Promise<{done: number, left: number}>} Documents that are as they were, and those that others have changed since.
 */
export async function undo(database, offset, told) {
  /** @type {Map<string, {removed: any[], inserted: any[], updated: any[]}>} */
  const byCollection = new Map();
  let all = 0;
  for await (const line of client(database).changes({ since: offset - 1, until: offset, values: "both" })) {
    if (Number(line.transactionId) !== offset) continue;
    const found = byCollection.get(line.collection) ?? { removed: [], inserted: [], updated: [] };
    byCollection.set(line.collection, found);
    found[line.method === "remove" ? "removed" : line.method === "insert" ? "inserted" : "updated"].push(line);
    all += 1;
  }
  /** @type {{statement: string, args: any, documents: number}[]} */
  const steps = [];
  for (const [collection, { removed, inserted, updated }] of byCollection) {
    for (let at = 0; at < removed.length; at += DOCUMENTS) {
      const part = removed.slice(at, at + DOCUMENTS);
      steps.push({
        statement: `INSERT INTO ${name(collection)} DOCUMENTS ${part.map((_, index) => `(:d${index})`).join(", ")} ON ID CONFLICT DO NOTHING`,
        args: Object.fromEntries(part.map((line, index) => [`d${index}`, line.oldValue])), documents: part.length,
      });
    }
    for (let at = 0; at < inserted.length; at += DOCUMENTS) {
      const part = inserted.slice(at, at + DOCUMENTS);
      steps.push({ statement: `DELETE FROM ${name(collection)} WHERE _id IN :ids`, args: { ids: part.map(({ id }) => id) }, documents: part.length });
    }
    for (const { id, oldValue, value } of updated) {
      const back = differences(value, oldValue);
      if (back.length > 0) steps.push({ ...update(collection, id, back), documents: 1 });
    }
  }
  let [sent, done] = [0, 0];
  for (let at = 0; at < steps.length; at += BATCH) {
    const part = steps.slice(at, at + BATCH);
    const transaction = part.map(({ statement, args }) => ({ statement, args }));
    const { results } = await call("POST", "/api/v5/store/execute", { database, body: { transaction }, quiet: at > 0 });
    sent += part.reduce((sum, step) => sum + step.documents, 0);
    done += results.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.mutatedDocumentIds.length, 0);
    told(sent, all);
  }
  return { done, left: sent - done };
}
