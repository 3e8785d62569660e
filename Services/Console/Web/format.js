// @ts-check
/** Numbers, times and values as people read them. */

import { kind, print } from "./exact.js";

const whole = new Intl.NumberFormat("en");

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) { return `${whole.format(count)} ${count === 1 ? one : many}`; }

/** @param {number} count */
export function grouped(count) { return whole.format(count); }

/** @param {number} count */
export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

/** A duration of milliseconds. @param {number} milliseconds */
export function duration(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return seconds < 86_400 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** A moment relative to now. @param {number} milliseconds Since 1970. */
export function ago(milliseconds) {
  const past = Date.now() - milliseconds;
  const size = Math.abs(past);
  if (size < 3000) return "now";
  const text = size < 60_000 ? `${Math.round(size / 1000)} s` : duration(size);
  return past > 0 ? `${text} ago` : `in ${text}`;
}

/** The exact time of a moment. @param {number} milliseconds */
export function exactTime(milliseconds) {
  return new Date(milliseconds).toISOString().replace("T", " ").replace("Z", " UTC");
}

const UNITS = /** @type {Record<string, number>} */ ({ s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 });

/**
 * A moment as people write it: an offset of the log stays one, a time becomes one of RFC 3339. A time without a
 * zone is UTC, as all times on the pages are.
 * @param {string} text @param {number} [now] @returns {string} Empty for an empty text.
 */
export function moment(text, now = Date.now()) {
  const typed = text.trim().replace(/^now$/i, "0 s ago");
  if (/^\d*$/.test(typed)) return typed;
  const back = /^-?\s*(\d+(?:\.\d+)?)\s*(s|m|h|d)(?:ec|econds?|in|inutes?|ours?|ays?)?(?:\s+ago)?$/i.exec(typed);
  if (back) return new Date(now - Number(back[1]) * UNITS[back[2].toLowerCase()]).toISOString();
  const [, day = new Date(now).toISOString().slice(0, 10), time = "00:00", zone = "Z"]
    = /^(?:(\d{4}-\d\d-\d\d)(?:[T ]+|$))?(\d\d?:\d\d(?::\d\d(?:\.\d+)?)?)?\s*(Z|UTC|[+-]\d\d:?\d\d)?$/i.exec(typed) ?? [typed, typed];
  const read = new Date(`${day}T${time.padStart(time.indexOf(":") === 1 ? time.length + 1 : 0, "0")}${/^(z|utc)$/i.test(zone) ? "Z" : zone.replace(/^(...)(\d\d)$/, "$1:$2")}`);
  if (Number.isNaN(read.getTime()) || !/^\d{4}-\d\d-\d\d$/.test(day) || new Date(`${day}T00:00:00Z`).toISOString().slice(0, 10) !== day) {
    throw Object.assign(new Error(`“${shortened(typed, 60)}” is neither an offset of the log nor a time. Write 2026-11-26 08:30 (UTC), 08:30 for today, or 10 min ago`), { code: "MOMENT" });
  }
  return read.toISOString();
}

/** A field's name as it is shown: one without a name has quotes. @param {string} name */
export function keyText(name) { return name === "" ? "\"\"" : name; }

/** A path of fields as it is shown. @param {string[]} path */
export function pathText(path) { return path.map(keyText).join("."); }

/** A value in one short line. @param {any} value @param {number} [most] */
export function preview(value, most = 120) {
  const type = kind(value);
  if (type === "missing") return "";
  if (type === "text") return shortened(value, most);
  if (type === "attachment") return `attachment, ${bytes(Number(value.len))}`;
  // A value of megabytes is not printed as a whole for a line.
  if (type === "object" || type === "array") return shortened(shallow(value, most), most);
  return print(value);
}

/** @param {any} value @param {number} most */
function shallow(value, most) {
  let text = Array.isArray(value) ? "[" : "{";
  for (const key of Object.keys(value)) {
    if (text.length > most) return `${text}…`;
    const member = value[key];
    const isDeep = member !== null && typeof member === "object" && Object.keys(member).length > 5;
    const part = isDeep ? (Array.isArray(member) ? `[${member.length}]` : "{…}")
      : typeof member === "string" ? JSON.stringify(shortened(member, 40)) : print(member);
    text += `${text.length > 1 ? ", " : ""}${Array.isArray(value) ? "" : `${keyText(key)}: `}${part}`;
  }
  return text + (Array.isArray(value) ? "]" : "}");
}

/** @param {string} text @param {number} most */
export function shortened(text, most) { return text.length > most ? `${text.slice(0, most)}…` : text; }

/** A document's id in one line. @param {any} id */
export function idText(id) { return typeof id === "string" ? id : print(id); }
