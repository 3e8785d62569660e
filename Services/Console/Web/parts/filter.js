// @ts-check
/** Conditions without DQL: a field, a comparison, a value; and what a condition that finds nothing may have meant. */

import { html, useState } from "../vendor/preact.js";
import { COMPARISONS, comparison, namesIn, nearest } from "../dql.js";
import { pathText } from "../format.js";
import { sampledShape, shape } from "../schema.js";
import { useLoaded } from "./basics.js";

/** The fields of a collection: of a sample spread over it where the server gives one, else of the documents shown. @param {string} database @param {string} collection @param {any[]} rows */
async function fieldsOf(database, collection, rows) {
  const sampled = await sampledShape(database, collection).catch(() => null);
  return sampled?.fields ?? shape(rows.slice(0, 1000));
}

/** The kind in which a typed value is meant, by the kinds that the field has. @param {Record<string, number>} kinds @param {string} typed */
function kindOf(kinds, typed) {
  const all = Object.keys(kinds).filter((one) => one !== "null");
  const isNumber = typed.trim() !== "" && Number.isFinite(Number(typed));
  if (all.length > 0 && all.every((one) => one === "integer" || one === "double")) return "number";
  if (all.length === 1) return all[0];
  return isNumber && !all.includes("text") ? "number" : /^(true|false)$/.test(typed.trim()) && all.includes("boolean") ? "boolean" : "text";
}

/**
 * A row that makes a condition of a field, a comparison and a value.
 * @param {{database: string, collection: string, rows: any[], add: (condition: string) => void, close: () => void}} props
 */
export function FieldFilter({ database, collection, rows, add, close }) {
  const found = useLoaded(() => fieldsOf(database, collection, rows), [database, collection]);
  /** @type {any[]} */
  const all = (found.value ?? []).slice().sort((/** @type {any} */ a, /** @type {any} */ b) => pathText(a.path) < pathText(b.path) ? -1 : 1);
  const [place, setPlace] = useState("");
  const [how, setHow] = useState("is");
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState("");
  const field = all.find(({ path }) => JSON.stringify(path) === place) ?? all[0];
  const needsValue = COMPARISONS.find(([key]) => key === how)?.[2] !== false;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!field) return;
    try {
      add(comparison(collection, field.path, how, typed, kindOf(field.kinds, typed)));
      setTyped("");
      setProblem("");
    } catch (error) { setProblem(/** @type {Error} */ (error).message); }
  };
  return html`<form class="bar filter-row" aria-label="Filter by a field" onSubmit=${submit} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") { event.preventDefault(); close(); } }}>
    <select autofocus aria-label="Field" value=${field ? JSON.stringify(field.path) : ""} onChange=${(/** @type {any} */ event) => setPlace(event.currentTarget.value)}>
      ${all.length === 0 && html`<option value="">${found.isLoading ? "Looking …" : "no field is known"}</option>`}
      ${all.map((one) => html`<option key=${JSON.stringify(one.path)} value=${JSON.stringify(one.path)}>${pathText(one.path)}</option>`)}</select>
    <select aria-label="Comparison" value=${how} onChange=${(/** @type {any} */ event) => setHow(event.currentTarget.value)}>
      ${COMPARISONS.map(([key, title]) => html`<option key=${key} value=${key}>${title}</option>`)}</select>
    ${needsValue && html`<input aria-label="Value" placeholder=${how === "in" ? "a, b, c" : "value"} value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} />`}
    <button type="submit" class="main" disabled=${!field}>Add</button><button type="button" onClick=${close}>Cancel</button>
    ${problem && html`<span class="warning" role="alert">${problem}</span>`}</form>`;
}

/**
 * What a condition that finds nothing may have meant: names that no document of the sample has.
 * @param {{database: string, collection: string, where: string, set: (where: string) => void}} props
 */
export function Unknown({ database, collection, where, set }) {
  const found = useLoaded(async () => {
    const sampled = await sampledShape(database, collection).catch(() => null);
    return sampled?.fields ?? null;
  }, [database, collection]);
  const known = /** @type {any[] | null} */ (found.value)?.map(({ path }) => path[0]) ?? [];
  if (known.length === 0) return null;
  const missing = namesIn(collection, where).filter(({ name }) => !known.includes(name));
  return html`<div class="hints">${missing.slice(0, 4).map(({ name, at, length, isValue, isAlone }) => {
    const near = nearest(name, known);
    const instead = (/** @type {string} */ text) => set(where.slice(0, at) + text + where.slice(at + length));
    return html`<p key=${at}>No document of the sample has a field <code>${name}</code>.
      ${near && !isValue && html` <button type="button" onClick=${() => instead(near)}>Take ${near}</button>`}
      ${isValue && html` A text stands in quotes: <button type="button" onClick=${() => instead(`'${name.replaceAll("'", "''")}'`)}>Take '${name}'</button>`}
      ${isAlone && !near && html` A condition compares a field with a value, as in <code>${known.find((one) => one !== "_id") ?? "_id"} = '${name}'</code>.`}</p>`;
  })}</div>`;
}
