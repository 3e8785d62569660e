// @ts-check
/** What is known of a database's collections and fields, for columns, completion and the fields' types. */

import { pathName } from "/mimeo.js";
import { call, execute, serves } from "./api.js";
import { name } from "./dql.js";
import { kind } from "./exact.js";
import { mayAdmin, session } from "./store.js";

/** Collections whose documents are counted by statements, for whoever may not ask for all sizes. */
const COUNTED = 200;

/** @param {string} database @returns {Promise<string[]>} */
export async function collectionNames(database) {
  const { items } = await execute(database, "SELECT name FROM system:collections", {}, { quiet: true });
  return items.map((/** @type {any} */ row) => row.name)
    .filter((/** @type {any} */ text) => typeof text === "string" && !text.startsWith("__server_")).sort();
}

/** Whether peers write a collection by themselves, and no application does. @param {string} name */
export function isSystem(name) { return name.startsWith("__"); }

/** Collections that peers write by themselves come after those of the application. @param {{name: string}} a @param {{name: string}} b */
function systemLast(a, b) { return Number(isSystem(a.name)) - Number(isSystem(b.name)) || (a.name < b.name ? -1 : 1); }

/**
 * The collections with their sizes, as far as the session may know them.
 * @param {string} database
 * @returns {Promise<{name: string, documents: number | null, bytes: number | null}[]>}
 */
export async function collections(database) {
  if (session.value?.admin && await serves("/admin/query-service/databases/{database}/collections")) {
    const path = `/admin/query-service/databases/${encodeURIComponent(database)}/collections`;
    const found = (await call("GET", path, { quiet: true })).collections;
    return found.filter((/** @type {any} */ one) => !one.isInternal).sort(systemLast)
      .map((/** @type {any} */ one) => ({ name: one.name, documents: Number(one.documents), bytes: Number(one.bytes) }));
  }
  const names = await collectionNames(database);
  const counts = await counted(database, names);
  return names.map((one) => ({ name: one, documents: counts.get(one) ?? null, bytes: null })).sort(systemLast);
}

/** Counts of documents where counting reads no document: all of a collection may be read. @param {string} database @param {string[]} names */
async function counted(database, names) {
  const rules = session.value?.databases.find(({ id }) => id === database)?.permissions?.read;
  const whole = names.filter((one) => rules?.everything || rules?.queriesByCollection?.[one]?.includes("true")).slice(0, COUNTED);
  if (whole.length === 0) return new Map();
  const transaction = whole.map((one) => ({ statement: `SELECT RAW COUNT(*) FROM ${name(one)}` }));
  try {
    const { results } = await call("POST", "/api/v5/store/execute", { database, body: { transaction }, quiet: true });
    return new Map(results.map((/** @type {any} */ one, /** @type {number} */ index) => [whole[index], Number(one.items[0])]));
  } catch { return new Map(); }
}

/** The offset that the log has reached. @param {string} database @param {AbortSignal} [signal] @returns {Promise<number>} */
export async function head(database, signal) {
  return Number((await execute(database, "SELECT * FROM system:dual", {}, { quiet: true, signal })).transactionId);
}

/**
 * @typedef {object} FieldShape
 * @property {string[]} path
 * @property {number} count Documents that have it.
 * @property {Record<string, number>} kinds
 * @property {any} example
 */

/**
 * The fields of documents, the most frequent first.
 * @param {any[]} documents @param {number} [depth] @returns {FieldShape[]}
 */
export function shape(documents, depth = 3) {
  /** @type {Map<string, FieldShape>} */
  const found = new Map();
  const look = (/** @type {any} */ value, /** @type {string[]} */ path) => {
    for (const key of Object.keys(value)) {
      const member = value[key];
      const place = [...path, key];
      const text = JSON.stringify(place);
      const type = kind(member);
      let field = found.get(text);
      if (!field) {
        // A document with ten thousand keys does not make ten thousand columns.
        if (found.size > 500) continue;
        found.set(text, field = { path: place, count: 0, kinds: {}, example: member });
      }
      field.count += 1;
      field.kinds[type] = (field.kinds[type] ?? 0) + 1;
      if (type === "object" && place.length < depth) look(member, place);
    }
  };
  for (const document of documents) if (document && typeof document === "object") look(document, []);
  return [...found.values()].sort((a, b) => b.count - a.count);
}

/** Kinds as the server names them, and as this page does. @type {Record<string, string>} */
const KINDS = { string: "text", float: "double" };

/**
 * The fields of a sample of the whole collection; null for whoever may not ask for it.
 * @param {string} database @param {string} collection @returns {Promise<{count: number, fields: FieldShape[]} | null>}
 */
export async function sampledShape(database, collection) {
  if (!mayAdmin("operate")) return null;
  const path = `/admin/query-service/databases/${encodeURIComponent(database)}/collections/${pathName(collection)}/shape`;
  const { sampled, keys } = await call("GET", path, { quiet: true });
  return { count: Number(sampled), fields: keys.map((/** @type {any} */ one) => ({
    path: one.path, count: Number(one.count), example: one.example ?? undefined,
    kinds: Object.fromEntries(Object.entries(one.kinds).map(([name, count]) => [KINDS[name] ?? name, Number(count)])),
  })) };
}

/** Fields of a collection as paths, from a sample of its documents. @param {string} database @param {string} collection @returns {Promise<string[][]>} */
export async function fields(database, collection) {
  const { items } = await execute(database, `SELECT * FROM ${name(collection)} LIMIT 100`, {}, { quiet: true });
  return shape(items).map(({ path }) => path);
}
