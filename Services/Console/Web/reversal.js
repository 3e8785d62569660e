// @ts-check
/** Statements that take changes back by the kinds of their fields: what was counted is counted back, all else is written. */

import { guard, name, place, target } from "./dql.js";
import { define, kind, parse, same } from "./exact.js";

/**
 * A change of one field, as the log's feed and a document's history have it.
 * @typedef {{path: string[], kind: string, old?: any, new?: any, oldHidden?: boolean, newHidden?: boolean}} Change
 */

/** The changes of a path, by kind, and those of the paths below it. @typedef {{own: Change[], below: Map<string, Node>}} Node */

/** One step of a statement: an amount to add, a value to set, or neither to remove what is there. @typedef {{path: string[], node: Node, add?: any, set?: any, types: Type[]}} Step */

/** A field whose kind a statement has to name. @typedef {{path: string[], type: string}} Type */

/** @param {Change[]} changes @returns {Node} */
function tree(changes) {
  /** @type {Node} */
  const root = { own: [], below: new Map() };
  for (const change of changes) {
    let at = root;
    for (const key of change.path) {
      if (!at.below.has(key)) at.below.set(key, { own: [], below: new Map() });
      at = /** @type {Node} */ (at.below.get(key));
    }
    at.own.push(change);
  }
  return root;
}

/** The change of the kind that showed before or shows after. @param {Node} node @param {"old" | "new"} side */
function shown(node, side) { return node.own.find((one) => one[side] !== undefined && !one[`${side}Hidden`]); }

/** A whole value as it was on one side; undefined if there was none. @param {Node} node @param {"old" | "new"} side @returns {any} */
function whole(node, side) {
  const found = shown(node, side);
  if (found?.kind !== "map") return found?.[side];
  /** @type {Record<string, any>} */
  const object = {};
  for (const [key, below] of node.below) {
    const value = whole(below, side);
    if (value !== undefined) define(object, key, value);
  }
  return object;
}

/** The kinds to name when a former value is written: those that its form alone would not give. @param {Node} node @param {string[]} path @returns {Type[]} */
function types(node, path) {
  const found = shown(node, "old");
  if (found?.kind === "map") return [...node.below].flatMap(([key, below]) => types(below, [...path, key]));
  if (found === undefined || (found.kind === "register" && kind(found.old) !== "object" && kind(found.old) !== "attachment")) return [];
  return [{ path, type: found.kind.toUpperCase() }];
}

/** A collection as the source of a statement, with the kinds of its fields. @param {string} collection @param {Type[]} all */
function source(collection, all) {
  /** @param {Type[]} fields @param {number} depth @returns {string} */
  const text = (fields, depth) => [...new Set(fields.map(({ path }) => path[depth]))].map((key) => {
    const inside = fields.filter(({ path }) => path[depth] === key);
    return `${name(key)} ${inside[0].path.length === depth + 1 ? inside[0].type : `MAP(${text(inside, depth + 1)})`}`;
  }).join(", ");
  return all.length > 0 ? `COLLECTION ${name(collection)} (${text(all, 0)})` : name(collection);
}

/** The steps that lead back, each for a path that no other one is below. @param {Node} node @param {string[]} path @returns {Generator<Step>} */
function* steps(node, path) {
  const [old, now] = [shown(node, "old"), shown(node, "new")];
  if (path.length > 0 && (old || now)) {
    const step = { path, node, types: /** @type {Type[]} */ ([]) };
    if (old && now && old.kind === now.kind) {
      if (same(old.old, now.new)) return;
      if (old.kind === "counter") yield { ...step, add: difference(old.old, now.new) };
      else yield { ...step, set: old.old, types: types(node, path) };
    } else if (old && old.new === undefined) {
      yield { ...step, set: whole(node, "old"), types: types(node, path) };
    } else {
      // The former kind is still there, below the one that is removed.
      yield { ...step, types: old && now ? [{ path, type: now.kind.toUpperCase() }] : [] };
    }
    return;
  }
  for (const [key, below] of node.below) yield* steps(below, [...path, key]);
}

/** The amount from one sum to another; whole numbers wrap at 64 bits, as counters do. @param {any} to @param {any} from */
function difference(to, from) {
  if (kind(to) !== "integer" || kind(from) !== "integer") return Number(to) - Number(from);
  return parse(String(BigInt.asIntN(64, BigInt(String(to)) - BigInt(String(from)))));
}

/**
 * The statement that takes the changes of a document back, if each of its fields is still as they left it. A
 * counter may have been counted on; it is counted back by as much as it had been counted.
 * @param {string} collection @param {any} id @param {Change[]} changes
 * @param {(path: string[], left: any) => any} [valueNow] The value of a path that is expected now, in place of the one that the changes left.
 * @returns {{statement: string, args: Record<string, any>} | null} Null if nothing is to be done.
 */
export function takingBack(collection, id, changes, valueNow = (_, left) => left) {
  /** @type {Record<string, any>} */
  const args = { id };
  /** @type {Record<"APPLY" | "SET" | "UNSET", string[]>} */
  const clauses = { APPLY: [], SET: [], UNSET: [] };
  /** @type {string[]} */
  const guards = [];
  /** @type {Type[]} */
  const named = [];
  [...steps(tree(changes), [])].forEach((step, index) => {
    const { path } = step;
    const [changed, where] = [target(collection, path), place(collection, path)];
    named.push(...step.types);
    if (step.add !== undefined) {
      clauses.APPLY.push(`${changed} PN_INCREMENT BY :add${index}`);
      args[`add${index}`] = step.add;
      // Only if the counter is what shows: others may have written a plain value over it.
      guards.push(`${where} = (SELECT RAW ${where} FROM ${source(collection, [{ path, type: "COUNTER" }])} USE IDS :id)`);
      return;
    }
    guards.push(guard(where, valueNow(path, whole(step.node, "new")), `old${index}`, args));
    if (step.set === undefined) clauses.UNSET.push(changed);
    else {
      clauses.SET.push(`${changed} = :new${index}`);
      args[`new${index}`] = step.set;
    }
  });
  if (guards.length === 0) return null;
  const changed = Object.entries(clauses).filter(([, all]) => all.length > 0).map(([word, all]) => `${word} ${all.join(", ")}`).join(" ");
  // Where kinds are named, fields of other kinds do not show: the guards look at the document as readers do.
  const test = named.length > 0 ? `EXISTS (SELECT _id FROM ${name(collection)} USE IDS :id WHERE ${guards.join(" AND ")})` : guards.join(" AND ");
  return { statement: `UPDATE ${source(collection, named)} ${changed} WHERE _id = :id AND ${test}`, args };
}

/** The statement that inserts a removed document again, with the kinds that its fields had. @param {string} collection @param {any} id @param {Change[]} changes */
export function insertingAgain(collection, id, changes) {
  const root = tree(changes);
  return {
    statement: `INSERT INTO ${source(collection, types(root, []))} DOCUMENTS (:d) ON ID CONFLICT DO NOTHING`,
    args: { d: { _id: id, ...whole(root, "old") } },
  };
}

/** The statement that deletes an inserted document if it is still as its insertion left it. @param {string} collection @param {any} id @param {Change[]} changes */
export function deletingInserted(collection, id, changes) {
  return {
    statement: `DELETE FROM ${name(collection)} WHERE _id = :id AND ${name(collection)} = :d`,
    args: { id, d: { _id: id, ...whole(tree(changes), "new") } },
  };
}

/**
 * The changes that lead from one state of a document to another, with the kinds that its history tells.
 * @param {any} from @param {any} to @param {Change[]} history Earlier changes, the earliest first.
 * @returns {Change[]}
 */
export function changesBetween(from, to, history) {
  const kinds = new Map(history.filter((one) => one.new !== undefined && !one.newHidden).map((one) => [one.path.join("\u0000"), one.kind]));
  /** @type {Change[]} */
  const found = [];
  /** @param {string[]} path @param {any} old @param {any} now */
  const compare = (path, old, now) => {
    if (same(old, now)) return;
    const known = kinds.get(path.join("\u0000"));
    const form = (/** @type {any} */ value) => known ?? (kind(value) === "object" ? "map" : kind(value) === "attachment" ? "attachment" : "register");
    const isMap = (/** @type {any} */ value) => kind(value) === "object" && form(value) === "map";
    if (!(isMap(old) && isMap(now))) {
      if (old !== undefined) found.push({ path, kind: isMap(old) ? "map" : form(old), old: isMap(old) ? {} : old });
      if (now !== undefined) found.push({ path, kind: isMap(now) ? "map" : form(now), new: isMap(now) ? {} : now });
    }
    const below = new Set([...(isMap(old) ? Object.keys(old) : []), ...(isMap(now) ? Object.keys(now) : [])]);
    for (const key of below) compare([...path, key], isMap(old) && Object.hasOwn(old, key) ? old[key] : undefined, isMap(now) && Object.hasOwn(now, key) ? now[key] : undefined);
  };
  compare([], to, from);
  return found;
}
