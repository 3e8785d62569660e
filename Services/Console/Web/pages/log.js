// @ts-check
/** The log of a database: head, snapshot, truncation; its operations as they come, filtered; housekeeping. */

import { html, useState } from "../vendor/preact.js";
import { call } from "../api.js";
import { bytes, grouped, idText } from "../format.js";
import { address } from "../route.js";
import { mayAdmin, mayOpen, note } from "../store.js";
import { Empty, Looking, Problem, Time, useLoaded, useRepeated } from "../parts/basics.js";
import { Table } from "../parts/table.js";

/** Operations in the list. */
const LISTED = 500;
/** The facts with names for people, in their order. @type {[string, string][]} */
const FACTS = [["head", "Last offset"], ["snapshot", "Snapshot at"], ["truncated", "Begins after"], ["folded", "Folded up to"], ["lag", "Behind"], ["sessions", "Sessions"], ["queries", "Distinct subscriptions"]];

/** Operations behind an offset, up to the head: an answer ends early where operations are large.
 * @param {string} path @param {number} after @param {number} head */
async function operationsAfter(path, after, head) {
  /** @type {any[]} */
  const operations = [];
  for (let reached = after; reached < head && operations.length < LISTED;) {
    const page = (await call("GET", `${path}/log?after=${reached}&limit=${LISTED - operations.length}`, { quiet: true })).operations;
    if (page.length === 0) break;
    operations.push(...page);
    reached = Number(page[page.length - 1].offset);
  }
  return operations;
}

/** @param {{database: string}} props */
export function Log({ database }) {
  const path = `/admin/replicator/databases/${encodeURIComponent(database)}`;
  const [filter, setFilter] = useState("");
  const [isPaused, setPaused] = useState(false);
  const found = useLoaded(async () => {
    const all = (await call("GET", "/admin/replicator/databases", { quiet: true })).databases;
    const facts = all.find((/** @type {any} */ one) => (one.id ?? one.database) === database) ?? {};
    const after = Math.max(Number(facts.truncated ?? 0), Number(facts.head ?? 0) - LISTED);
    return { facts, operations: (await operationsAfter(path, after, Number(facts.head ?? 0))).reverse() };
  }, [database]);
  useRepeated(() => { if (!isPaused) found.again(); }, 2000, [isPaused]);
  const act = async (/** @type {string} */ part, /** @type {string} */ done) => {
    try { await call("POST", `${path}/${part}`); note(done); found.again(); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); }
  };
  const documents = (/** @type {any} */ one) => one.documents.slice(0, 3).map((/** @type {any} */ document) => `${document.collection}/${idText(document.id)}`).join(", ")
    + (Number(one.changes) > 3 ? ` and ${grouped(Number(one.changes) - 3)} more` : "");
  const shown = (found.value?.operations ?? []).filter((/** @type {any} */ one) => !filter
    || `${one.offset} ${one.actor} ${one.documents.map((/** @type {any} */ document) => `${document.collection}/${idText(document.id)}`).join(" ")}`.toLowerCase().includes(filter.toLowerCase()));
  const columns = [
    { key: "offset", title: "Offset", width: "90px", right: true, cell: (/** @type {any} */ one) => grouped(Number(one.offset)) },
    { key: "time", title: "Time", width: "100px", cell: (/** @type {any} */ one) => html`<${Time} at=${Number(one.milliseconds)} />` },
    { key: "actor", title: "Actor", width: "160px", cell: (/** @type {any} */ one) => html`<code>${one.actor}</code>` },
    { key: "bytes", title: "Size", width: "90px", right: true, cell: (/** @type {any} */ one) => bytes(Number(one.bytes)) },
    { key: "changes", title: "Changes", width: "90px", right: true, cell: (/** @type {any} */ one) => grouped(Number(one.changes)) },
    { key: "documents", title: "Documents", width: "minmax(200px, 1fr)", cell: documents },
  ];
  return html`<${Problem} error=${found.error} retry=${found.again} /><${Looking} found=${found} />
    <section class="card" aria-label="Log"><header><h2>Log</h2>${mayAdmin("operate") && html`<span class="end">
      <button type="button" onClick=${() => act("snapshots", "The snapshot is written")}>Snapshot now</button>
      <button type="button" onClick=${() => act("truncations", "What the snapshot stands for is removed")}>Truncate</button></span>`}</header>
      ${found.value && html`<dl class="facts">${FACTS.map(([key, title]) => html`<div key=${key}><dt>${title}</dt><dd>${found.value.facts[key] === undefined || found.value.facts[key] === null ? "–" : grouped(Number(found.value.facts[key]))}</dd></div>`)}</dl>`}
      <p class="quiet">A snapshot is the fold at its offset. Truncation removes the operations before it, except for the latest ones; then history reaches back to it.</p></section>
    <div class="bar"><input class="grow" data-filter aria-label="Filter operations" placeholder="collection, id, actor or offset" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)} />
      <button type="button" onClick=${() => setPaused(!isPaused)}>${isPaused ? "Go on" : "Pause"}</button>
      ${mayOpen(database) && html`<a class="button" href=${address(database, "live")}>With contents</a>`}</div>
    ${shown.length > 0 ? html`<${Table} label="Operations" rows=${shown} columns=${columns} rowKey=${(/** @type {any} */ one) => String(one.offset)} />`
      : found.value && html`<${Empty} title=${filter ? "No operation of the latest ones fits" : "The log is empty"}><p>The first write of a peer or over HTTP is its first operation.</p></${Empty}>`}`;
}
