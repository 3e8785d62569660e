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
    text += `${text.length > 1 ? ", " : ""}${Array.isArray(value) ? "" : `${key}: `}${part}`;
  }
  return text + (Array.isArray(value) ? "]" : "}");
}

/** @param {string} text @param {number} most */
export function shortened(text, most) { return text.length > most ? `${text.slice(0, most)}…` : text; }

/** A document's id in one line. @param {any} id */
export function idText(id) { return typeof id === "string" ? id : print(id); }
