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

/** A path of fields as it stands in a statement. @param {string[]} path */
export function field(path) { return path.map(name).join("."); }

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
    const where = field(path);
    if (after === undefined) unset.push(where);
    else {
      set.push(`${where} = :new${index}`);
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
  const guard = of.kind === "register" && shown !== null ? ` AND ${field(of.path)} = :shown` : "";
  return {
    statement: `UPDATE ${declared} SET ${field(of.path)} = :chosen WHERE _id = :id${guard}`,
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

/** A condition that a value has this value. @param {string[]} path @param {any} value */
export function equals(path, value) {
  if (value === null) return `${field(path)} IS NULL`;
  return value === undefined ? `${field(path)} IS MISSING` : `${field(path)} = ${literal(value)}`;
}
