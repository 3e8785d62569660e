// @ts-check
/** Collections and their documents: live, filtered by DQL or by clicking values, chosen, inserted, deleted. */

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { client, execute } from "../api.js";
import { conditioned, equals, name, place as placed, placeTyped } from "../dql.js";
import { print } from "../exact.js";
import { bytes, counted, grouped, idText, keyText, pathText } from "../format.js";
import { address, go, refine, route } from "../route.js";
import { collections, head, isSystem, sampledShape, shape } from "../schema.js";
import { mayAdmin, mayRead, mayWrite, note, ownRights, useShared } from "../store.js";
import { copy, Empty, LiveBadge, Problem, useLink, useLoaded, useRepeated, useSeen } from "../parts/basics.js";
import { Delete, Insert } from "../parts/change.js";
import { ConflictList, conflictsOf } from "../parts/conflicts.js";
import { among, followed, idKey } from "../parts/followed.js";
import { Columns, useColumns, useFields, useLayout } from "../parts/columns.js";
import { FieldFilter, Unknown } from "../parts/filter.js";
import { csv, CSV_TITLE, lines, save } from "../parts/results.js";
import { Table } from "../parts/table.js";
import { ValueMenu } from "../parts/menu.js";
import { Text, Tree } from "../parts/value.js";

/** Columns that are shown at first. */
const COLUMNS = 10;
const STEPS = [1000, 10_000, 100_000];
const FRESH_MS = 1600;
/** Documents of which the fields are told where the server gives no sample. */
const SAMPLE = 1000;
/** Time between two looks at the log's head: counts and sizes follow it. */
const HEAD_MS = 2000;

/** @param {{database: string, collection: string | null}} props */
export function Data({ database, collection }) {
  const head = useHead(database);
  const names = useLoaded(() => collections(database), [database, head]);
  useRepeated(names.again, 15_000, [database]);
  // An emptied collection is one no more, and those of the peers themselves are nobody's documents.
  const all = (names.value ?? []).filter((/** @type {any} */ one) => one.documents !== 0 || one.name === collection);
  const known = all.filter((/** @type {any} */ one) => !isSystem(one.name));
  const others = all.length - known.length;
  const hasSizes = known.some((/** @type {any} */ one) => one.bytes !== null);
  const [filter, setFilter] = useState("");
  const [isAdding, setAdding] = useState(false);
  const [showsAll, setShowsAll] = useState(collection !== null && isSystem(collection));
  const shown = (showsAll ? all : known).filter((/** @type {any} */ one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  return html`<div class="page split">
    <aside aria-label="Collections">
      <div class="bar"><input data-filter aria-label="Filter collections" placeholder=${names.value ? `${counted(known.length, "collection")}` : "Collections"}
        value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)} />
        ${mayWrite(database) && html`<button type="button" aria-label="New collection" title="New collection" onClick=${() => setAdding(true)}>+</button>`}</div>
      ${names.value && known.length > 0 && html`<p class="sum quiet" title=${hasSizes ? "Documents as they are stored, without indexes and the log" : mayAdmin("read") ? "" : "Sizes are shown to administrators"}>${
        hasSizes ? `${counted(known.reduce((sum, one) => sum + Number(one.documents ?? 0), 0), "document")}, ${bytes(known.reduce((sum, one) => sum + Number(one.bytes ?? 0), 0))}` : `Your key ${ownRights(database) ?? ""}`}</p>`}
      <${Problem} error=${names.error} retry=${names.again} />${!names.value && !names.error && html`<p class="sum quiet" role="status">Looking …</p>`}
      <${Names} names=${shown} chosen=${collection} database=${database} />
      ${others > 0 && html`<label class="check others"><input type="checkbox" checked=${showsAll} onChange=${(/** @type {any} */ event) => setShowsAll(event.currentTarget.checked)} />${counted(others, "collection")} of the peers themselves</label>`}
    </aside>
    ${collection === null
      ? html`<section><h1 class="hidden">Data</h1>${names.value && html`<${Empty} title=${known.length === 0 ? "No documents yet" : "Choose a collection"}>
          ${known.length === 0 && mayWrite(database) && html`<p>A collection begins with its first document.</p><button type="button" class="main" onClick=${() => setAdding(true)}>Insert a document</button>`}</${Empty}>`}</section>`
      : mayRead(database, collection) ? html`<${Documents} database=${database} collection=${collection} head=${head} size=${known.find((/** @type {any} */ one) => one.name === collection)?.bytes ?? null} />`
      : html`<section><${Empty} whole title=${`You may not read ${collection}`}><p>Your credential ${ownRights(database)}. Whoever made it can grant <code>${`{"read": {"queriesByCollection": {${JSON.stringify(collection)}: ["true"]}}}`}</code>.</p>
          ${mayWrite(database, collection) && html`<p>It may write the collection: statements on the page <a href=${address(database, "query")}>Query</a> do that.</p>`}</${Empty}></section>`}
    ${isAdding && html`<${Insert} database=${database} collection=${null} close=${(/** @type {string | undefined} */ made) => {
      setAdding(false);
      if (made) { names.again(); go(address(database, "data", [made])); }
    }} />`}
  </div>`;
}

/** The offset that the log has reached, looked up again and again while the page is seen. @param {string} database */
function useHead(database) {
  const [offset, setOffset] = useState(0);
  useRepeated(() => { head(database).then(setOffset, () => {}); }, HEAD_MS, [database]);
  return offset;
}

/** The names, of which only those in view are in the page. @param {{names: any[], chosen: string | null, database: string}} props */
function Names({ names, chosen, database }) {
  const [top, setTop] = useState(0);
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const ROW = 30;
  const place = names.findIndex(({ name: one }) => one === chosen);
  // The chosen one comes into view, where the list is short and it is far down.
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element || place < 0) return;
    const at = place * ROW;
    if (at < element.scrollTop || at + ROW > element.scrollTop + element.clientHeight) element.scrollTop = Math.max(0, at - ROW);
  }, [chosen, place >= 0]);
  const first = Math.max(0, Math.floor(top / ROW) - 10);
  const part = names.slice(first, first + 80);
  return html`<div class="names" ref=${frame} onScroll=${(/** @type {any} */ event) => setTop(event.currentTarget.scrollTop)}>
    <ul style=${{ height: `${names.length * ROW}px` }}>${part.map(({ name: one, documents, bytes: size }, place) => html`<li key=${one} style=${{ transform: `translateY(${(first + place) * ROW}px)` }}>
      <a href=${address(database, "data", [one])} aria-current=${one === chosen ? "true" : undefined} title=${size === null ? one : `${one}: ${counted(documents ?? 0, "document")}, ${bytes(size)}`}><span>${one}</span>
        ${documents !== null && html`<span class="quiet figure">${grouped(documents)}</span>`}${size !== null && html`<span class="quiet figure size">${bytes(size)}</span>`}</a></li>`)}</ul></div>`;
}

/**
 * The documents that a condition finds, kept up to date: few by a live query, many by the log's changes.
 * @param {string} database @param {{collection: string, condition: string, statement: string, sort: string, most: number}} wanted
 */
function useObserved(database, wanted) {
  const { statement } = wanted;
  const isSeen = useSeen();
  const [link, onConnection] = useLink();
  const [state, setState] = useState({ rows: /** @type {any[] | null} */ (null), error: /** @type {any} */ (null), fresh: new Set(), isLive: false, statement, count: 0 });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!isSeen) return undefined;
    const stop = new AbortController();
    let count = 0;
    /** @type {any} */
    let timer;
    const show = (/** @type {any[]} */ rows, /** @type {Set<string>} */ fresh) => {
      count += 1;
      setState({ rows, error: null, fresh: count === 1 ? new Set() : fresh, isLive: true, statement, count: 0 });
      clearTimeout(timer);
      timer = setTimeout(() => setState((/** @type {any} */ old) => ({ ...old, fresh: new Set() })), FRESH_MS);
    };
    (async () => {
      if (wanted.most > STEPS[0]) {
        const told = (/** @type {number} */ read) => setState((/** @type {any} */ old) => old.rows ? old : { ...old, count: read });
        for await (const { rows, changed } of followed(database, { ...wanted, signal: stop.signal, told, onConnection })) show(rows, changed);
        return;
      }
      for await (const event of client(database).observe(statement, {}, { signal: stop.signal, onConnection })) {
        show(event.rows, new Set([...event.insertions, ...event.updates].slice(0, 500).map((index) => idKey(event.rows[index]?._id))));
      }
    })().catch((error) => { if (!stop.signal.aborted) setState((/** @type {any} */ old) => ({ ...old, error, isLive: false })); });
    return () => { stop.abort(); clearTimeout(timer); };
  }, [database, statement, turn, isSeen]);
  return { ...state, link, again: () => setTurn((/** @type {number} */ n) => n + 1) };
}

/** @param {{database: string, collection: string, head: number, size: number | null}} props */
function Documents({ database, collection, head, size }) {
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
  const mayChange = mayWrite(database, collection);
  const condition = conditioned(where);
  const statement = `SELECT * FROM ${name(collection)}${condition} ORDER BY ${sort} LIMIT ${most}`;
  const [menu, setMenu] = useState(/** @type {any} */ (null));
  const { rows, error, fresh, isLive, link, count: read, again } = useObserved(database, { collection, condition, statement, sort, most });
  const count = useLoaded((signal) => execute(database, `SELECT COUNT(*) AS n FROM ${name(collection)}${condition}`, {}, { signal, quiet: true })
    .then(({ items }) => Number(items[0]?.n ?? 0)), [database, collection, condition, head]);
  const conflicts = useLoaded(() => conflictsOf(database, collection), [database, collection]);
  const contested = conflicts.value?.documents.length ?? 0;
  useEffect(() => { if (view === "conflicts") conflicts.again(); }, [view]);
  // Fewer rows than were asked for are all there are, and are live; else the count is the latest one known.
  const total = rows && rows.length < most ? rows.length : Math.max(count.value ?? 0, rows?.length ?? 0);
  const mistake = error?.details ? placeTyped(error.details, where) : null;
  const [layout, setLayout] = useLayout(`${database}.${collection}`);
  const [isArranging, setArranging] = useState(false);
  const [isBuilding, setBuilding] = useState(false);
  const available = useFields(rows ?? []);
  const plain = useColumns(rows ?? [], available, COLUMNS, layout);
  const columns = plain.map((column) => ({ ...column, title: html`<button type="button" class="plain" title=${`Sort by ${keyText(column.key)}`}
    onClick=${() => { const by = placed(collection, [column.key]); refine({ sort: sort === by ? `${by} DESC` : by }); }}>${keyText(column.key)}${sort.replace(/ DESC$/, "") === placed(collection, [column.key]) ? (sort.endsWith(" DESC") ? " ↓" : " ↑") : ""}</button>`, cell: column.key === "_id" ? (/** @type {any} */ row) => html`<a href=${address(database, "data", [collection, print(row._id)])} tabIndex="-1" title="Open the document">${idText(row._id)}</a>` : column.cell }));
  const open = (/** @type {any} */ row) => go(address(database, "data", [collection, print(row._id)]));
  const narrow = (/** @type {string} */ more) => refine({ where: where.trim() ? `(${where}) AND ${more}` : more });
  const pick = (/** @type {string[]} */ path, /** @type {any} */ value) => narrow(equals(collection, path, value));
  const chosen = useMemo(() => {
    const isChosen = among(selected);
    return selected.size === 0 ? [] : (rows ?? []).filter(({ _id }) => isChosen(_id));
  }, [rows, selected]);
  const taken = chosen.length ? chosen : rows ?? [];
  const tellPart = () => { if (chosen.length === 0 && total > taken.length) note(`The file has the ${grouped(taken.length)} documents shown, of ${grouped(total)}; "mimeo export" has all`); };

  return html`<section class="documents" aria-label=${`Documents of ${collection}`}>
    <form class="bar" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); refine({ where: typed }); }}>
      <h1>${collection}</h1>
      <label class="grow"><span class="hidden">Condition in DQL</span><input data-filter class="code" spellcheck=${false} placeholder="WHERE …   seats < 5 AND engine.kind = 'petrol'"
        value=${typed} aria-invalid=${mistake === null ? undefined : "true"} aria-describedby=${mistake === null ? undefined : "mistake"} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label>
      <button type="submit">Filter</button>
      <button type="button" aria-expanded=${isBuilding} onClick=${() => setBuilding(!isBuilding)}>By field</button>
      ${where && html`<button type="button" onClick=${() => refine({ where: "" })}>Clear</button>`}
      ${mayChange && html`<button type="button" class="main" onClick=${() => setAdding(true)}>Insert</button>`}
    </form>
    ${isBuilding && html`<${FieldFilter} database=${database} collection=${collection} rows=${rows ?? []} add=${narrow} close=${() => setBuilding(false)} />`}
    <div class="bar">
      <div class="tabs" role="tablist" aria-label="View of the documents">${[["table", "Table"], ["tree", "Tree"], ["json", "JSON"], ["fields", "Fields"], ...(contested > 0 || view === "conflicts" ? [["conflicts", contested > 0 ? `Conflicts (${grouped(contested)}${conflicts.value?.more ? "+" : ""})` : "Conflicts"]] : [])].map(([key, label]) => html`
        <button key=${key} type="button" role="tab" aria-selected=${view === key} onClick=${() => refine({ view: key })}>${label}</button>`)}</div>
      <span class="count" role="status">${rows ? `${grouped(rows.length)} of ${grouped(total)}` : error ? "" : `Loading …${read > 0 ? ` ${counted(read, "document")} so far` : ""}`}</span>
      ${size !== null && html`<span class="quiet" title="The collection's documents as they are stored, without indexes and the log">${bytes(size)}</span>`}
      ${isLive && html`<${LiveBadge} link=${link} />`}
      ${total > most && html`<label>Show <select value=${String(most)} onChange=${(/** @type {any} */ event) => refine({ most: event.currentTarget.value })}>
        ${STEPS.map((step) => html`<option key=${step} value=${String(step)}>${grouped(step)}</option>`)}</select></label>`}
      <span class="end">
        ${chosen.length > 0 && html`<button type="button" class="danger" onClick=${() => setDeleting(true)}>Delete ${chosen.length}</button>`}
        ${view === "table" && rows && rows.length > 0 && html`<button type="button" onClick=${() => setArranging(true)}>Columns</button>`}
        <a class="button" href=${address(database, "query", [], { q: statement.replace(/\(\n([\s\S]*)\n\)/, (_, typed) => typed) })}>Query</a>
        <button type="button" onClick=${() => { save(`${collection}.ndjson`, lines(taken), "application/x-ndjson"); tellPart(); }}>NDJSON</button>
        <button type="button" title=${CSV_TITLE} onClick=${() => { save(`${collection}.csv`, csv(taken), "text/csv"); tellPart(); }}>CSV</button></span>
    </div>
    ${mistake === null ? html`<${Problem} error=${error} retry=${again} />` : html`<${Mistake} error=${error} at=${mistake} typed=${where} />`}
    ${!error && rows?.length === 0 && view !== "conflicts" && html`<${Empty} title=${where ? "No document fits the condition" : "No documents"}>
      ${where && html`<${Unknown} database=${database} collection=${collection} where=${where} set=${(/** @type {string} */ text) => refine({ where: text })} />`}
      ${(where || mayChange) && html`<button type="button" onClick=${() => where ? refine({ where: "" }) : setAdding(true)}>${where ? "Clear the filter" : "Insert a document"}</button>`}</${Empty}>`}
    ${rows && rows.length > 0 && view === "table" && html`<${Table} label=${`Documents of ${collection}`} rows=${rows} columns=${columns} widen=${(/** @type {string} */ key, /** @type {number} */ width) => setLayout({ ...layout, widths: { ...layout.widths, [key]: width } })} fresh=${fresh} open=${open} pick=${(/** @type {any} */ row, /** @type {any} */ column, /** @type {DOMRect} */ box) => setMenu({ row, key: column.key, box })}
      rowKey=${(/** @type {any} */ row) => idKey(row._id)} selected=${mayChange ? selected : undefined}
      select=${mayChange && ((/** @type {string} */ key, /** @type {boolean} */ isSelected) => setSelected((/** @type {Set<string>} */ old) => {
        const next = new Set(old);
        if (isSelected) next.add(key); else next.delete(key);
        return next;
      }))} />`}
    ${rows && rows.length > 0 && (view === "json" || view === "tree") && html`<${Cards} rows=${rows} fresh=${fresh} open=${open} pick=${pick} isText=${view === "json"} />`}
    ${view === "conflicts" && html`<${ConflictList} database=${database} collection=${collection} found=${conflicts} />`}
    ${rows && rows.length > 0 && view === "fields" && html`<${Fields} database=${database} collection=${collection} rows=${rows} isFiltered=${Boolean(condition)} pick=${pick} />`}
    ${menu && html`<${ValueMenu} key=${`${idKey(menu.row._id)} ${menu.key}`} path=${[menu.key]} value=${menu.row[menu.key]} box=${menu.box} pick=${pick} open=${() => open(menu.row)} close=${() => setMenu(null)} />`}
    ${isArranging && html`<${Columns} shown=${columns.map(({ key }) => key)} available=${available} of="this collection" layout=${layout} change=${setLayout} close=${() => setArranging(false)} />`}
    ${isAdding && html`<${Insert} database=${database} collection=${collection} like=${rows?.[0]} close=${() => { setAdding(false); count.again(); }} />`}
    ${isDeleting && html`<${Delete} database=${database} collection=${collection} documents=${chosen} close=${() => { setDeleting(false); setSelected(new Set()); count.again(); }} />`}
  </section>`;
}

/** A mistake in the condition, at its place in what was typed. @param {{error: any, at: number, typed: string}} props */
function Mistake({ error, at, typed }) {
  const word = /^[\w`]+|^./su.exec(typed.slice(at))?.[0] ?? "";
  const message = String(error.message).replace(/\s*\(?line \d+,? column \d+\)?/i, "")
    .replace(at >= typed.length ? /, found (?:\)|ORDER)$/ : /$^/, ", found the end");
  return html`<div class="problem" role="alert" id="mistake"><p><b>${error.code}</b> ${message}${at >= typed.length ? ", at the end of the condition" : `, at character ${at + 1} of the condition`}. The rows are those of the filter before.</p>
    <pre class="typed">${typed.slice(0, at)}<mark>${word || "…"}</mark>${typed.slice(at + word.length)}</pre></div>`;
}

/** @param {{rows: any[], fresh: Set<string>, open: (row: any) => void, pick: (path: string[], value: any) => void, isText: boolean}} props */
function Cards({ rows, fresh, open, pick, isText }) {
  const [most, setMost] = useState(50);
  return html`<div class="scroll">${rows.slice(0, most).map((row) => {
    const key = idKey(row._id);
    return html`<article key=${key} class=${`card ${fresh.has(key) ? "fresh" : ""}`}>
      <header><b>${idText(row._id)}</b><span class="end"><button type="button" onClick=${() => copy(print(row, 2))}>Copy</button><button type="button" onClick=${() => open(row)}>Open</button></span></header>
      ${isText ? html`<${Text} value=${row} />` : html`<${Tree} value=${row} open=${2} pick=${pick} />`}</article>`;
  })}${rows.length > most && html`<button type="button" onClick=${() => setMost(most + 50)}>Show more</button>`}</div>`;
}

/**
 * The fields with their types: of a sample spread over the collection where the server gives one, else of the
 * documents shown.
 * @param {{database: string, collection: string, rows: any[], isFiltered: boolean, pick: (path: string[], value: any) => void}} props
 */
function Fields({ database, collection, rows, isFiltered, pick }) {
  const sampled = useLoaded(() => isFiltered ? Promise.resolve(null) : sampledShape(database, collection), [database, collection, isFiltered]);
  const shown = rows.slice(0, SAMPLE);
  const own = useMemo(() => shape(shown, 4), [rows]);
  const found = sampled.value?.fields ?? own;
  const count = sampled.value?.count ?? shown.length;
  return html`<div class="scroll"><${Problem} error=${sampled.error} retry=${sampled.again} /><table class="plain-table"><caption>Of ${counted(count, "document")}${sampled.value ? ", spread over the collection" : " shown"}</caption>
    <thead><tr><th scope="col">Field</th><th scope="col">In</th><th scope="col">Types</th><th scope="col">Example</th></tr></thead>
    <tbody>${found.map((one) => html`<tr key=${one.path.join("\u0000")} class=${Object.keys(one.kinds).filter((type) => type !== "null").length > 1 ? "mixed" : ""}>
      <th scope="row"><code>${pathText(one.path)}</code></th>
      <td>${Math.round(one.count / count * 1000) / 10} %</td>
      <td>${Object.entries(one.kinds).sort((a, b) => b[1] - a[1]).map(([type, count]) => html`<span class=${`badge ${type}`} key=${type}>${type}${Object.keys(one.kinds).length > 1 ? ` ${grouped(count)}` : ""}</span>`)}</td>
      <td>${one.example !== undefined && html`<${Tree} value=${one.example} open=${0} pick=${pick} path=${one.path} />`}</td></tr>`)}</tbody></table></div>`;
}
