// @ts-check
/**
 * The place within the console, as the address has it: `#/db/ID/data/cars?where=…`. Everything that a page
 * shows is in it, so that back, reload and a sent link show the same.
 */

import { Shared } from "./store.js";

/**
 * @typedef {object} Route
 * @property {string | null} database
 * @property {string} page
 * @property {string[]} rest The parts after the page.
 * @property {Record<string, string>} query
 */

/** @param {string} hash @returns {Route} */
export function read(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const database = parts[0] === "db" ? parts[1] ?? null : null;
  const after = parts[0] === "db" ? parts.slice(2) : parts;
  return {
    database, page: after[0] ?? "overview", rest: after.slice(1),
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

/** @param {string | null} database @param {string} page @param {string[]} [rest] @param {Record<string, any>} [query] */
export function address(database, page, rest = [], query = {}) {
  const parts = (database === null ? [] : ["db", database]).concat(page, rest).map(encodeURIComponent);
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(said).toString();
  return `#/${parts.join("/")}${search ? `?${search}` : ""}`;
}

export const route = new Shared(read(location.hash));
addEventListener("hashchange", () => route.set(read(location.hash)));

/** @param {string} hash */
export function go(hash) { location.hash = hash; }

/** Changes the query of the place without a step in the browser's history. @param {Record<string, any>} change */
export function refine(change) {
  const { database, page, rest, query } = route.value;
  history.replaceState(null, "", address(database, page, rest, { ...query, ...change }));
  route.set(read(location.hash));
}
