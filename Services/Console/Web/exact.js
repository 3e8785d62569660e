// @ts-check
/**
 * JSON without loss: whole numbers beyond 2^53 keep all digits, and `1.0` stays apart from `1`.
 *
 * A number that JavaScript would change is a `Num`, which keeps its text; all others are plain numbers.
 * Texts without such numbers are read by the browser's own, faster reader.
 */

/** A number as it was written. */
export class Num {
  /** @param {string} source */
  constructor(source) { this.source = source; }
  toString() { return this.source; }
  valueOf() { return Number(this.source); }
  toJSON() {
    const raw = /** @type {any} */ (JSON).rawJSON;
    return raw ? raw(this.source) : Number(this.source);
  }
}

/** Finds texts that may have a number which JavaScript would change; also some that have none. */
const HARD = /\d{16}|\d\.0|\d[eE]|-0/;
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"[^"\\\u0000-\u001f]*(?:\\.[^"\\\u0000-\u001f]*)*"/y;

/** A text that is no JSON; `line` and `column` count from 1. */
export class MalformedJSON extends Error {
  /** @param {string} message @param {string} text @param {number} at */
  constructor(message, text, at) {
    const before = text.slice(0, at).split("\n");
    const line = before.length;
    const column = before[before.length - 1].length + 1;
    super(`${message} (line ${line}, column ${column})`);
    this.line = line;
    this.column = column;
  }
}

/** @param {string} source @returns {number | Num} */
function number(source) {
  const value = Number(source);
  if (String(value) === source) return value;
  return Number.isInteger(value) || !Number.isFinite(value) ? new Num(source) : value;
}

/**
 * Reads JSON.
 * @param {string} text
 * @param {{strict?: boolean}} [options] strict: a key that stands twice is an error.
 * @returns {any}
 */
export function parse(text, options = {}) {
  if (!options.strict && !HARD.test(text)) return JSON.parse(text);
  let at = 0;
  const fail = (/** @type {string} */ message) => { throw new MalformedJSON(message, text, at); };
  const skip = () => { SPACE.lastIndex = at; SPACE.test(text); at = SPACE.lastIndex; };
  const string = () => {
    STRING.lastIndex = at;
    if (!STRING.test(text)) fail("a text is not closed, or has a line break");
    const source = text.slice(at, STRING.lastIndex);
    try {
      const value = JSON.parse(source);
      at = STRING.lastIndex;
      return value;
    } catch { return fail("a text has an unknown escape"); }
  };
  const value = () => {
    skip();
    const first = text[at];
    if (first === "{") {
      /** @type {Record<string, any>} */
      const object = {};
      at += 1;
      skip();
      if (text[at] === "}") { at += 1; return object; }
      for (;;) {
        skip();
        if (text[at] !== "\"") fail("a key in quotes is expected");
        const start = at;
        const key = string();
        if (options.strict && Object.hasOwn(object, key)) { at = start; fail(`the key "${key}" stands twice`); }
        skip();
        if (text[at] !== ":") fail("a colon is expected");
        at += 1;
        define(object, key, value());
        skip();
        if (text[at] === ",") { at += 1; continue; }
        if (text[at] === "}") { at += 1; return object; }
        fail("a comma or } is expected");
      }
    }
    if (first === "[") {
      const list = [];
      at += 1;
      skip();
      if (text[at] === "]") { at += 1; return list; }
      for (;;) {
        list.push(value());
        skip();
        if (text[at] === ",") { at += 1; continue; }
        if (text[at] === "]") { at += 1; return list; }
        fail("a comma or ] is expected");
      }
    }
    if (first === "\"") return string();
    for (const [word, meaning] of /** @type {[string, any][]} */ ([["true", true], ["false", false], ["null", null]])) {
      if (text.startsWith(word, at)) { at += word.length; return meaning; }
    }
    NUMBER.lastIndex = at;
    if (!NUMBER.test(text)) fail(at >= text.length ? "the text ends too early" : "a value is expected");
    const source = text.slice(at, NUMBER.lastIndex);
    at = NUMBER.lastIndex;
    return number(source);
  };
  const result = value();
  skip();
  if (at < text.length) fail("nothing more is expected");
  return result;
}

/**
 * Sets a member, also one named `__proto__`.
 * @param {Record<string, any>} object @param {string} key @param {any} value
 */
export function define(object, key, value) {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else object[key] = value;
}

/**
 * Writes JSON.
 * @param {any} value
 * @param {number} [indent] Spaces per level; 0 for one line.
 * @returns {string}
 */
export function print(value, indent = 0) {
  const write = (/** @type {any} */ value, /** @type {string} */ margin) => {
    if (value instanceof Num) return value.source;
    if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
    const inner = indent ? margin + " ".repeat(indent) : "";
    const [open, close] = Array.isArray(value) ? "[]" : "{}";
    const parts = Array.isArray(value)
      ? value.map((/** @type {any} */ item) => write(item, inner))
      : Object.keys(value).filter((key) => value[key] !== undefined)
        .map((key) => `${JSON.stringify(key)}:${indent ? " " : ""}${write(value[key], inner)}`);
    if (parts.length === 0) return open + close;
    return indent
      ? `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${close}` : open + parts.join(",") + close;
  };
  return write(value, "");
}

/**
 * A value's kind in words.
 * @param {any} value
 * @returns {"missing" | "null" | "boolean" | "integer" | "double" | "text" | "array" | "attachment" | "object"}
 */
export function kind(value) {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  if (value instanceof Num) return /[.eE]/.test(value.source) ? "double" : "integer";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "double";
  if (typeof value === "string") return "text";
  if (typeof value === "boolean") return "boolean";
  if (Array.isArray(value)) return "array";
  return isAttachment(value) ? "attachment" : "object";
}

/** Whether an object looks like an attachment's token. @param {any} value */
export function isAttachment(value) {
  return typeof value?.id === "string" && /^[A-Za-z0-9_-]{40,70}$/.test(value.id) && "len" in value;
}

/** Whether an object is an attachment's token, with nothing beside it: the server takes no other as one. @param {any} value */
function isToken(value) {
  const { len, metadata = {} } = value;
  return isAttachment(value) && Object.keys(value).every((key) => ["id", "len", "metadata"].includes(key))
    && kind(len) === "integer" && !String(len instanceof Num ? len.source : len).startsWith("-")
    && metadata !== null && typeof metadata === "object" && !Array.isArray(metadata) && !(metadata instanceof Num)
    && Object.values(metadata).every((text) => typeof text === "string");
}

/**
 * A value of a document as an argument that writes it again. An attachment's token is marked as one: unmarked it would
 * become an object, and the attachment, which no document refers to then, would be removed.
 * @param {any} value @returns {any}
 */
export function argument(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value) || value instanceof Num) return value;
  if (isToken(value)) return { "~attachment": value };
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, argument(member)]));
}

/** Whether two values are the same, kinds of numbers included. @param {any} a @param {any} b @returns {boolean} */
export function same(a, b) {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (a instanceof Num || b instanceof Num) {
    return a instanceof Num && b instanceof Num && a.source === b.source;
  }
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length
    && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}
