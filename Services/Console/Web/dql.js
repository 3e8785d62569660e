// @ts-check
/** Statements of DQL that the console writes: names, differences of documents as updates, and their undoing. */

import { keywords } from "./language.js";
import { kind, same } from "./exact.js";

const reserved = new Set(keywords);

/** A name as it stands in a statement. @param {string} text */
export function name(text) {
  const isPlain = /^[A-Za-z_][A-Za-z0-9_]*$/.test(text) && !reserved.has(text.toUpperCase());
  return isPlain ? text : `\`${text.replaceAll("`", "``")}\``;
}

/** A path of fields on its own. @param {string[]} path */
export function field(path) { return path.map(name).join("."); }

/**
 * A path of fields as SET and UNSET have it: with the collection before it where its first field has the same
 * name, which alone would mean the collection.
 * @param {string} collection @param {string[]} path
 */
export function target(collection, path) { return path[0] === collection ? `${name(collection)}.${field(path)}` : field(path); }

/**
 * A path of fields as it stands in an expression. A first field without a name, or with that of the collection,
 * is asked of its document.
 * @param {string} collection @param {string[]} path
 */
export function place(collection, path) {
  if (path[0] === "") return [`${name(collection)}['']`, ...path.slice(1).map(name)].join(".");
  return target(collection, path);
}

/**
 * @typedef {object} Difference
 * @property {string[]} path
 * @property {any} before undefined if there was nothing.
 * @property {any} after undefined if there is nothing any more.
 */

/**
 * The paths in which two documents differ. Objects differ by their fields; everything else as a whole.
 * @param {any} before @param {any} after @param {string[]} [path] @returns {Difference[]}
 */
export function differences(before, after, path = []) {
  if (same(before, after)) return [];
  const both = kind(before) === "object" && kind(after) === "object";
  if (!both) return [{ path, before, after }];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => differences(
    Object.hasOwn(before, key) ? before[key] : undefined,
    Object.hasOwn(after, key) ? after[key] : undefined, [...path, key]));
}

/**
 * The statement that makes the differences, if each path still has the value it had: nothing is overwritten
 * that somebody else has changed meanwhile.
 * @param {string} collection @param {any} id @param {Difference[]} all
 */
export function update(collection, id, all) {
  /** @type {Record<string, any>} */
  const args = { id };
  const set = [];
  const unset = [];
  const guards = ["_id = :id"];
  all.forEach(({ path, before, after }, index) => {
    const changed = target(collection, path);
    const where = place(collection, path);
    if (after === undefined) unset.push(changed);
    else {
      set.push(`${changed} = :new${index}`);
      args[`new${index}`] = after;
    }
    if (before === undefined) guards.push(`${where} IS MISSING`);
    else if (before === null) guards.push(`${where} IS NULL`);
    else {
      guards.push(`${where} = :old${index}`);
      args[`old${index}`] = before;
    }
  });
  const changes = [set.length ? `SET ${set.join(", ")}` : "", unset.length ? `UNSET ${unset.join(", ")}` : ""]
    .filter(Boolean).join(" ");
  return { statement: `UPDATE ${name(collection)} ${changes} WHERE ${guards.join(" AND ")}`, args };
}

/**
 * The statement that chooses one of a field's concurrent values, if the same one still shows. The kind is
 * declared where the value's own form would make another one of it.
 * @param {string} collection @param {any} id @param {{path: string[], kind: string}} of @param {any} shown @param {any} chosen
 */
export function conflictChoice(collection, id, of, shown, chosen) {
  const isTree = kind(chosen) === "object" || kind(chosen) === "attachment" || of.kind !== "register";
  const type = of.path.reduceRight((inner, part, index) => `${name(part)} ${index === of.path.length - 1 ? of.kind.toUpperCase() : `MAP(${inner})`}`, "");
  const declared = isTree ? `COLLECTION ${name(collection)} (${type})` : name(collection);
  // Values that are compared as a whole are guarded; a token has no comparison of its own.
  const guard = of.kind === "register" && shown !== null ? ` AND ${place(collection, of.path)} = :shown` : "";
  return {
    statement: `UPDATE ${declared} SET ${target(collection, of.path)} = :chosen WHERE _id = :id${guard}`,
    args: guard ? { id, shown, chosen } : { id, chosen },
  };
}

/** The differences that lead back. @param {Difference[]} all @returns {Difference[]} */
export function reversed(all) { return all.map(({ path, before, after }) => ({ path, before: after, after: before })); }

/** A text or number as it stands in a condition. @param {any} value */
export function literal(value) {
  if (typeof value === "string") return `'${value.replaceAll("'", "''")}'`;
  return value === null ? "NULL" : String(value);
}

/** Longer texts are no filter that anybody can read. */
const LONGEST_LITERAL = 1000;

/** Whether documents can be filtered by a value: a single one that a statement can have within. @param {any} value */
export function isFilter(value) {
  const type = kind(value);
  return type === "text" ? value.length <= LONGEST_LITERAL : !["array", "object", "attachment"].includes(type);
}

/** A condition that a field has this value. @param {string} collection @param {string[]} path @param {any} value */
export function equals(collection, path, value) {
  const where = place(collection, path);
  if (value === null) return `${where} IS NULL`;
  return value === undefined ? `${where} IS MISSING` : `${where} = ${literal(value)}`;
}

/**
 * The documents of a collection for which a condition holds. What is typed has lines of its own: the place of a
 * mistake is then a place in it.
 * @param {string} typed
 */
export function conditioned(typed) { return typed.trim() ? ` WHERE (\n${typed}\n)` : ""; }

/**
 * The place of a statement's mistake within a condition that was typed: the end for what is missing after it.
 * @param {{line?: number, column?: number}} details @param {string} typed
 * @returns {number | null} Characters before it; null if it is elsewhere.
 */
export function placeTyped(details, typed) {
  if (!details?.line) return null;
  const lines = typed.split("\n");
  const line = Number(details.line) - 2;
  if (line < 0 || line > lines.length) return null;
  const before = lines.slice(0, line).reduce((sum, text) => sum + text.length + 1, 0);
  return Math.min(typed.length, line === lines.length ? typed.length : before + Number(details.column) - 1);
}
