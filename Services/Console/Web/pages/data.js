// @ts-check
/** Collections and their documents: live, filtered by DQL or by clicking values, chosen, inserted, deleted. */

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { client, execute } from "../api.js";
import { equals, name } from "../dql.js";
import { print } from "../exact.js";
import { bytes, counted, grouped, idText } from "../format.js";
import { address, go, refine, route } from "../route.js";
import { collections, shape } from "../schema.js";
import { useShared } from "../store.js";
import { Empty, Problem, useLoaded, useRepeated } from "../parts/basics.js";
import { Delete, Insert } from "../parts/change.js";
import { save, csv, useColumns } from "../parts/results.js";
import { Table } from "../parts/table.js";
import { Tree } from "../parts/value.js";

const STEPS = [1000, 10_000, 100_000];
const FRESH_MS = 1600;

/** @param {{database: string, collection: string | null}} props */
export function Data({ database, collection }) {
  const names = useLoaded(() => collections(database), [database]);
  useRepeated(names.again, 15_000, [database]);
  const [filter, setFilter] = useState("");
  const [isAdding, setAdding] = useState(false);
  const shown = (names.value ?? []).filter((/** @type {any} */ one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  return html`<div class="page split">
    <aside aria-label="Collections">
      <div class="bar"><input data-filter aria-label="Filter collections" placeholder=${names.value ? `${counted(names.value.length, "collection")}` : "Collections"}
        value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)} />
        <button type="button" aria-label="New collection" title="New collection" onClick=${() => setAdding(true)}>+</button></div>
      <${Problem} error=${names.error} retry=${names.again} />
      <${Names} names=${shown} chosen=${collection} database=${database} />
    </aside>
    ${collection === null
      ? html`<section><${Empty} title=${names.value?.length === 0 ? "No documents yet" : "Choose a collection"}>
          ${names.value?.length === 0 && html`<p>A collection begins with its first document.</p><button type="button" class="main" onClick=${() => setAdding(true)}>Insert a document</button>`}</${Empty}></section>`
      : html`<${Documents} database=${database} collection=${collection} />`}
    ${isAdding && html`<${Insert} database=${database} collection=${null} close=${(/** @type {string | undefined} */ made) => {
      setAdding(false);
      if (made) { names.again(); go(address(database, "data", [made])); }
    }} />`}
  </div>`;
}

/** The names, of which only those in view are in the page. @param {{names: any[], chosen: string | null, database: string}} props */
function Names({ names, chosen, database }) {
  const [top, setTop] = useState(0);
  const ROW = 30;
  const first = Math.max(0, Math.floor(top / ROW) - 10);
  const part = names.slice(first, first + 80);
  return html`<div class="names" onScroll=${(/** @type {any} */ event) => setTop(event.currentTarget.scrollTop)}>
    <ul style=${{ height: `${names.length * ROW}px` }}>${part.map(({ name: one, documents, bytes: size }, place) => html`<li key=${one} style=${{ transform: `translateY(${(first + place) * ROW}px)` }}>
      <a href=${address(database, "data", [one])} aria-current=${one === chosen ? "true" : undefined} title=${size === null ? one : `${one}: ${bytes(size)}`}><span>${one}</span>
        ${documents !== null && html`<span class="quiet">${grouped(documents)}</span>`}</a></li>`)}</ul></div>`;
}

/**
 * The documents that a condition finds, kept up to date.
 * @param {string} database @param {string} statement
 */
function useObserved(database, statement) {
  const [state, setState] = useState({ rows: /** @type {any[] | null} */ (null), error: /** @type {any} */ (null), fresh: new Set(), isLive: false, statement });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let count = 0;
    /** @type {any} */
    let timer;
    (async () => {
      for await (const event of client(database).observe(statement, {}, { signal: stop.signal })) {
        const fresh = new Set(count === 0 ? [] : [...event.insertions, ...event.updates].slice(0, 500).map((index) => print(event.rows[index]?._id)));
        count += 1;
        setState({ rows: event.rows, error: null, fresh, isLive: true, statement });
        clearTimeout(timer);
        timer = setTimeout(() => setState((/** @type {any} */ old) => ({ ...old, fresh: new Set() })), FRESH_MS);
      }
    })().catch((error) => { if (!stop.signal.aborted) setState((/** @type {any} */ old) => ({ ...old, error, isLive: false })); });
    return () => { stop.abort(); clearTimeout(timer); };
  }, [database, statement, turn]);
  return { ...state, again: () => setTurn((/** @type {number} */ n) => n + 1) };
}

/** @param {{database: string, collection: string}} props */
function Documents({ database, collection }) {
  const place = useShared(route);
  const where = place.query.where ?? "";
  const sort = place.query.sort ?? "_id";
  const most = Number(place.query.most ?? STEPS[0]);
  const view = place.query.view ?? "table";
  const [typed, setTyped] = useState(where);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [isAdding, setAdding] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  useEffect(() => setTyped(where), [where]);
  const condition = where.trim() ? ` WHERE ${where}` : "";
  const statement = `SELECT * FROM ${name(collection)}${condition} ORDER BY ${sort} LIMIT ${most}`;
  const { rows, error, fresh, isLive, again } = useObserved(database, statement);
  const count = useLoaded((signal) => execute(database, `SELECT COUNT(*) AS n FROM ${name(collection)}${condition}`, {}, { signal, quiet: true })
    .then(({ items }) => Number(items[0]?.n ?? 0)), [database, collection, condition]);
  const total = Math.max(count.value ?? 0, rows?.length ?? 0);
  const columns = useColumns(rows ?? [], 10).map((column) => ({ ...column, title: html`<button type="button" class="plain" title="Sort"
    onClick=${() => refine({ sort: sort === name(column.key) ? `${name(column.key)} DESC` : name(column.key) })}>${column.key}${sort.replace(/ DESC$/, "") === name(column.key) ? (sort.endsWith(" DESC") ? " ↓" : " ↑") : ""}</button>` }));
  const open = (/** @type {any} */ row) => go(address(database, "data", [collection, print(row._id)]));
  const pick = (/** @type {string[]} */ path, /** @type {any} */ value) => {
    const more = equals(path, value);
    refine({ where: where.trim() ? `(${where}) AND ${more}` : more });
  };
  const chosen = (rows ?? []).filter((row) => selected.has(print(row._id)));

  return html`<section class="documents" aria-label=${`Documents of ${collection}`}>
    <form class="bar" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); refine({ where: typed }); }}>
      <h1>${collection}</h1>
      <label class="grow"><span class="hidden">Condition in DQL</span><input data-filter class="code" spellcheck=${false} placeholder="WHERE …   seats < 5 AND engine.kind = 'petrol'"
        value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label>
      <button type="submit">Filter</button>
      ${where && html`<button type="button" onClick=${() => refine({ where: "" })}>Clear</button>`}
      <button type="button" class="main" onClick=${() => setAdding(true)}>Insert</button>
    </form>
    <div class="bar">
      <div class="tabs" role="tablist" aria-label="View of the documents">${[["table", "Table"], ["json", "JSON"], ["fields", "Fields"]].map(([key, label]) => html`
        <button key=${key} type="button" role="tab" aria-selected=${view === key} onClick=${() => refine({ view: key })}>${label}</button>`)}</div>
      <span class="count" role="status">${rows ? `${grouped(rows.length)} of ${grouped(total)}` : "Loading …"}</span>
      ${isLive && html`<span class="live">live</span>`}
      ${total > most && html`<label>Show <select value=${String(most)} onChange=${(/** @type {any} */ event) => refine({ most: event.currentTarget.value })}>
        ${STEPS.map((step) => html`<option key=${step} value=${String(step)}>${grouped(step)}</option>`)}</select></label>`}
      <span class="end">
        ${chosen.length > 0 && html`<button type="button" class="danger" onClick=${() => setDeleting(true)}>Delete ${chosen.length}</button>`}
        <a class="button" href=${address(database, "query", [], { q: statement })}>Query</a>
        <button type="button" onClick=${() => save(`${collection}.ndjson`, (chosen.length ? chosen : rows ?? []).map((row) => `${print(row)}\n`), "application/x-ndjson")}>NDJSON</button>
        <button type="button" onClick=${() => save(`${collection}.csv`, [csv(chosen.length ? chosen : rows ?? [])], "text/csv")}>CSV</button></span>
    </div>
    <${Problem} error=${error} retry=${again} />
    ${!error && rows?.length === 0 && html`<${Empty} title=${where ? "No document fits the condition" : "No documents"}>
      <button type="button" onClick=${() => where ? refine({ where: "" }) : setAdding(true)}>${where ? "Clear the filter" : "Insert a document"}</button></${Empty}>`}
    ${rows && rows.length > 0 && view === "table" && html`<${Table} label=${`Documents of ${collection}`} rows=${rows} columns=${columns} fresh=${fresh} open=${open}
      rowKey=${(/** @type {any} */ row) => print(row._id)} selected=${selected}
      select=${(/** @type {string} */ key, /** @type {boolean} */ isSelected) => setSelected((/** @type {Set<string>} */ old) => {
        const next = new Set(old);
        if (isSelected) next.add(key); else next.delete(key);
        return next;
      })} />`}
    ${rows && view === "json" && html`<${Cards} rows=${rows} fresh=${fresh} open=${open} pick=${pick} />`}
    ${rows && view === "fields" && html`<${Fields} rows=${rows} pick=${pick} />`}
    ${isAdding && html`<${Insert} database=${database} collection=${collection} like=${rows?.[0]} close=${() => { setAdding(false); count.again(); }} />`}
    ${isDeleting && html`<${Delete} database=${database} collection=${collection} documents=${chosen} close=${() => { setDeleting(false); setSelected(new Set()); count.again(); }} />`}
  </section>`;
}

/** @param {{rows: any[], fresh: Set<string>, open: (row: any) => void, pick: (path: string[], value: any) => void}} props */
function Cards({ rows, fresh, open, pick }) {
  const [most, setMost] = useState(50);
  return html`<div class="scroll">${rows.slice(0, most).map((row) => {
    const key = print(row._id);
    return html`<article key=${key} class=${`card ${fresh.has(key) ? "fresh" : ""}`}>
      <header><b>${idText(row._id)}</b><button type="button" onClick=${() => open(row)}>Open</button></header>
      <${Tree} value=${row} open=${2} pick=${pick} /></article>`;
  })}${rows.length > most && html`<button type="button" onClick=${() => setMost(most + 200)}>Show more</button>`}</div>`;
}

/** The fields of the documents shown, with their types. @param {{rows: any[], pick: (path: string[], value: any) => void}} props */
function Fields({ rows, pick }) {
  const sample = rows.slice(0, 5000);
  const found = useMemo(() => shape(sample, 4), [rows]);
  return html`<div class="scroll"><table class="plain-table"><caption>Of ${counted(sample.length, "document")}</caption>
    <thead><tr><th scope="col">Field</th><th scope="col">In</th><th scope="col">Types</th><th scope="col">Example</th></tr></thead>
    <tbody>${found.map((one) => html`<tr key=${one.path.join("\u0000")} class=${Object.keys(one.kinds).filter((type) => type !== "null").length > 1 ? "mixed" : ""}>
      <th scope="row"><code>${one.path.join(".")}</code></th>
      <td>${Math.round(one.count / sample.length * 1000) / 10} %</td>
      <td>${Object.entries(one.kinds).sort((a, b) => b[1] - a[1]).map(([type, count]) => html`<span class=${`badge ${type}`} key=${type}>${type}${Object.keys(one.kinds).length > 1 ? ` ${grouped(count)}` : ""}</span>`)}</td>
      <td><${Tree} value=${one.example} open=${0} pick=${pick} path=${one.path} /></td></tr>`)}</tbody></table></div>`;
}
