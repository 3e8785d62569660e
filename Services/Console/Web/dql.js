// @ts-check
/** Statements of DQL that the console writes: names, conditions, and differences of documents as updates. */

import { functions, keywords } from "./language.js";
import { argument, kind, parse, same } from "./exact.js";

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
 * The condition that a place has a value.
 * @param {string} where @param {any} value undefined if it has none. @param {string} argument The name of its argument. @param {Record<string, any>} args
 */
export function guard(where, value, argument, args) {
  if (value === undefined) return `${where} IS MISSING`;
  if (value === null) return `${where} IS NULL`;
  args[argument] = value;
  return `${where} = :${argument}`;
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
      args[`new${index}`] = argument(after);
    }
    guards.push(guard(where, before, `old${index}`, args));
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

/** The words of a statement, without what stands in quotes and comments. */
const WORDS = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'?|"(?:[^"\\]|\\.)*"?|`(?:[^`]|``)*`?|:?[A-Za-z_]\w*|[()[\]{}]|\d[\w.]*|\S/g;

/** Words and signs of a text of DQL with their places; comments are left out. @param {string} text */
export function words(text) {
  let depth = 0;
  return [...text.matchAll(WORDS)].filter(([word]) => !word.startsWith("--") && !word.startsWith("/*")).map(({ 0: word, index }) => {
    if ("([{".includes(word)) depth += 1;
    if (")]}".includes(word)) depth -= 1;
    return { word, at: index, depth };
  });
}

/** The word that says what a statement does. @param {string} statement */
export function firstWord(statement) { return words(statement)[0]?.word.toUpperCase() ?? ""; }

/** Ways of INSERT that change the documents which are there. */
const OVER = ["UPDATE", "MERGE", "UPDATE_LOCAL_DIFF"];

/**
 * The documents that a statement would change.
 * @typedef {object} Change
 * @property {string} verb
 * @property {string} of
 * @property {string} explain The statement that tells a mistake of it without executing it.
 * @property {(details: any) => any} placed The place of such a mistake, as it is in the text.
 * @property {string | null} count The statement that counts them; null where none does.
 * @property {(found: number, args: Record<string, any>) => number} left How many of those that it counts LIMIT and OFFSET leave.
 * @property {number | null} number How many there are, where the text says so.
 */

const EXPLAIN = "EXPLAIN ";

/**
 * A statement that is explained where it stands, behind its comments.
 * @param {string} text @param {number} at Its first word. @param {number | null} profile PROFILE before it.
 */
function explained(text, at, profile) {
  if (profile !== null) return { explain: `${text.slice(0, profile)}EXPLAIN${text.slice(profile + EXPLAIN.length - 1)}`, placed: (/** @type {any} */ details) => details };
  const line = text.slice(0, at).split("\n").length;
  return {
    explain: text.slice(0, at) + EXPLAIN + text.slice(at),
    placed: (/** @type {any} */ details) => details?.line === line ? { ...details, column: details.column - EXPLAIN.length } : details,
  };
}

/**
 * What a statement would change, if it is one that changes documents which are there. Null for every other one.
 * @param {string} statement @returns {Change | null}
 */
export function changeOf(statement) {
  const text = statement.trim().replace(/;\s*$/, "");
  const all = words(text).map((one) => ({ ...one, upper: one.word.toUpperCase() }));
  const first = all[0]?.upper === "PROFILE" ? 1 : 0;
  const verb = all[first]?.upper;
  const clause = (/** @type {string[]} */ ...names) => all.findIndex((one, place) => place > first && one.depth === 0 && names.includes(one.upper) && all[place - 1].word !== ".");
  const place = (/** @type {number} */ index) => index < 0 ? text.length : all[index].at;
  const part = (/** @type {number} */ from, /** @type {number} */ to) => text.slice(all[from].at, place(to)).trim();
  const bound = (/** @type {string} */ name, /** @type {number} */ otherwise, /** @type {Record<string, any>} */ args) => {
    const word = all[clause(name) + 1]?.word ?? "";
    const value = clause(name) < 0 ? otherwise : Number(word.startsWith(":") ? args[word.slice(1)] : word);
    return Number.isNaN(value) ? otherwise : value;
  };
  const change = {
    ...explained(text, all[first]?.at ?? 0, first === 1 ? all[0].at : null),
    left: (/** @type {number} */ found, /** @type {Record<string, any>} */ args) => Math.min(Math.max(0, found - bound("OFFSET", 0, args)), bound("LIMIT", Infinity, args)),
    number: null,
  };
  if (verb === "INSERT") return insertionOver(all, clause, part, change);
  if (!["DELETE", "TOMBSTONE", "UPDATE"].includes(verb)) return null;
  const from = verb === "UPDATE" ? first + 1 : clause("FROM") + 1;
  if (from === 0 || !all[from]) return null;
  const where = clause("WHERE");
  const after = clause("ORDER", "LIMIT", "OFFSET", "RETURNING");
  const source = part(from, clause(...(verb === "UPDATE" ? ["SET", "UNSET", "APPLY"] : ["WHERE", "ORDER", "LIMIT", "OFFSET", "RETURNING"])));
  return {
    ...change, verb: verb === "UPDATE" ? "Change" : "Delete", of: source.replace(/^COLLECTION\s+/i, ""),
    count: `SELECT RAW COUNT(*) FROM ${source}${where < 0 ? "" : ` ${part(where, after)}`}`,
  };
}

/**
 * What an INSERT would change: null for one that leaves the documents which are there.
 * @param {any[]} all @param {(...names: string[]) => number} clause @param {(from: number, to: number) => string} part @param {Pick<Change, "explain" | "placed" | "left" | "number">} change
 * @returns {Change | null}
 */
function insertionOver(all, clause, part, change) {
  const on = all.findIndex(({ upper, depth }, place) => depth === 0 && upper === "ON" && all[place + 1]?.upper === "ID" && OVER.includes(all[place + 4]?.upper));
  const [into, begin] = [clause("INTO") + 1, clause("DOCUMENTS", "VALUES", "SELECT")];
  if (on < 0 || into === 0 || begin < into) return null;
  const named = { ...change, verb: "Insert or change", of: part(into, begin).replace(/^COLLECTION\s+/i, "") };
  if (all[begin].upper !== "SELECT") return { ...named, count: null, number: 1 + all.slice(begin, on).filter(({ word, depth }) => word === "," && depth === 0).length };
  const source = clause("FROM");
  const isCounted = source > begin && clause("GROUP", "HAVING", "DISTINCT") < 0;
  const end = clause("ORDER", "LIMIT", "OFFSET");
  return { ...named, count: isCounted ? `SELECT RAW COUNT(*) ${part(source, end < 0 ? on : end)}` : null };
}

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

/** Comparisons of a filter: name, title, and whether they have a value. @type {[string, string, boolean][]} */
export const COMPARISONS = [
  ["is", "is", true], ["not", "is not", true], ["contains", "contains", true], ["starts", "begins with", true], ["ends", "ends with", true],
  ["less", "is less than", true], ["most", "is at most", true], ["more", "is more than", true], ["least", "is at least", true], ["in", "is one of", true],
  ["there", "is there", false], ["missing", "is missing", false], ["null", "is null", false],
];
const SIGNS = /** @type {Record<string, string>} */ ({ is: "=", not: "!=", less: "<", most: "<=", more: ">", least: ">=" });
const CALLS = /** @type {Record<string, string>} */ ({ contains: "contains", starts: "starts_with", ends: "ends_with" });

/**
 * A condition of a field, a comparison and a value as it was typed.
 * @param {string} collection @param {string[]} path @param {string} how @param {string} typed @param {string} type Of the value.
 */
export function comparison(collection, path, how, typed, type) {
  const where = place(collection, path);
  const value = (/** @type {string} */ text) => {
    const bare = text.trim();
    if (type === "boolean") {
      if (bare !== "true" && bare !== "false") throw new Error("true or false");
      return bare;
    }
    if (type !== "number") return literal(text);
    if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(bare)) throw new Error(`“${bare}” is no number`);
    return literal(parse(bare));
  };
  if (how === "there") return `${where} IS NOT MISSING`;
  if (how === "missing") return `${where} IS MISSING`;
  if (how === "null") return `${where} IS NULL`;
  if (how in CALLS) return `${CALLS[how]}(${where}, ${literal(typed)})`;
  if (how === "in") return `${where} IN [${typed.split(",").map((one) => value(one.trim())).join(", ")}]`;
  return `${where} ${SIGNS[how]} ${value(typed)}`;
}

/**
 * The fields that a condition names by their first part, each with its place, and whether it stands where a value
 * is compared, or alone.
 * @param {string} collection @param {string} where
 * @returns {{name: string, at: number, length: number, isValue: boolean, isAlone: boolean}[]}
 */
export function namesIn(collection, where) {
  const all = words(where);
  const calls = new Set(functions.map(([signature]) => signature.split("(")[0].split(".")[0].toLowerCase()));
  return all.flatMap(({ word, at }, index) => {
    const isQuoted = word.startsWith("`");
    if (!isQuoted && (!/^[A-Za-z_]/.test(word) || reserved.has(word.toUpperCase()))) return [];
    const [before, after] = [all[index - 1]?.word ?? "", all[index + 1]?.word ?? ""];
    const found = isQuoted ? word.slice(1, -1).replaceAll("``", "`") : word;
    const isCall = after === "(" || (after === "." && calls.has(found.toLowerCase()));
    if (before === "." || isCall || (found === collection && (after === "." || after === "["))) return [];
    return [{ name: found, at, length: word.length, isValue: /^[=<>]$/.test(before) && after !== ".", isAlone: all.length === 1 }];
  });
}

/** The name that is nearest to a mistyped one; null if none is near. @param {string} typed @param {string[]} known */
export function nearest(typed, known) {
  const most = Math.max(1, Math.floor(typed.length / 3));
  const found = known.map((one) => ({ one, far: distance(typed.toLowerCase(), one.toLowerCase()) })).sort((a, b) => a.far - b.far)[0];
  return found && found.far <= most ? found.one : null;
}

/** Letters to change, add, take away or exchange with their neighbour. @param {string} a @param {string} b */
function distance(a, b) {
  const rows = [[...Array(b.length + 1).keys()]];
  for (let i = 1; i <= a.length; i += 1) {
    rows.push([i]);
    for (let j = 1; j <= b.length; j += 1) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1;
      rows[i][j] = Math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.length][b.length];
}
