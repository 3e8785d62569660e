// @ts-check
/** The changes of the log as they come, or between two moments: what, by whom, when, old and new. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { breath, client } from "../api.js";
import { by, device, useDevices } from "../author.js";
import { print } from "../exact.js";
import { counted, exactTime, grouped, idText, keyText, moment, pathText, preview } from "../format.js";
import { address, refine, route } from "../route.js";
import { head as headOf } from "../schema.js";
import { mayWrite, useShared } from "../store.js";
import { Dialog, Empty, LiveBadge, MOMENTS, Problem, Time, useLink, useLoaded, useSeen } from "../parts/basics.js";
import { atTheSameTime } from "../parts/conflicts.js";
import { lines, save } from "../parts/results.js";
import { Table } from "../parts/table.js";
import { Undo } from "../parts/undo.js";

/** Lines that are kept; older ones go. */
const KEPT = 20_000;

/** @param {{database: string}} props */
export function Live({ database }) {
  const { query } = useShared(route);
  const [state, setState] = useState({ lines: /** @type {any[]} */ ([]), error: /** @type {any} */ (null), offset: /** @type {number | null} */ (null) });
  const [isPaused, setPaused] = useState(false);
  // Whether the changes between two moments have come, all of them.
  const [isWhole, setWhole] = useState(false);
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const [form, setForm] = useState({ collection: query.collection ?? "", where: query.where ?? "", since: query.since ?? "", until: query.until ?? "" });
  const [head, setHead] = useState(0);
  const [mistake, setMistake] = useState(/** @type {any} */ (null));
  const devices = useDevices(database);
  const isSeen = useSeen();
  const [link, onConnection] = useLink();
  const next = useRef(/** @type {string | number} */ (query.since || "now"));
  useEffect(() => {
    headOf(database).then(setHead, () => {});
  }, [database]);
  useEffect(() => { next.current = query.since || "now"; setWhole(false); setState({ lines: [], error: null, offset: null }); }, [database, query.since, query.until, query.collection, query.where]);
  useEffect(() => {
    if (isPaused || !isSeen) return undefined;
    const stop = new AbortController();
    /** @type {any[]} */
    let waiting = [];
    // Many lines at once are one rendering.
    const timer = setInterval(() => {
      if (waiting.length === 0) return;
      const more = waiting.reverse();
      waiting = [];
      const last = more.find((line) => line.last);
      if (last) { next.current = Number(last.transactionId); setHead((/** @type {number} */ old) => Math.max(old, Number(last.transactionId))); }
      setState((/** @type {any} */ old) => ({ lines: [...more, ...old.lines].slice(0, KEPT), error: null, offset: last ? Number(last.transactionId) : old.offset }));
    }, 60);
    (async () => {
      // By its number, so that a stream which is cut goes on from there.
      if (next.current === "now") next.current = await headOf(database, stop.signal);
      const options = {
        since: next.current, onConnection, values: /** @type {const} */ ("both"), follow: !query.until, until: query.until || undefined,
        collection: query.collection ? [query.collection] : undefined, where: query.where || undefined, signal: stop.signal,
      };
      for await (const line of client(database).changes(options)) {
        waiting.push(line);
        await breath();
      }
      setWhole(true);
    })().catch((error) => { if (!stop.signal.aborted) setState((/** @type {any} */ old) => ({ ...old, error })); });
    return () => { stop.abort(); clearInterval(timer); };
  }, [database, isPaused, isSeen, query.since, query.until, query.collection, query.where]);
  const columns = useMemo(() => [
    { key: "offset", title: "Offset", width: "80px", right: true, cell: (/** @type {any} */ line) => grouped(Number(line.transactionId)) },
    { key: "time", title: "Time", width: "104px", cell: (/** @type {any} */ line) => line.time && html`<${Time} at=${Date.parse(line.time)} />` },
    { key: "method", title: "What", width: "80px", cell: (/** @type {any} */ line) => html`<span class=${`badge ${line.method}`}>${line.method}</span>` },
    { key: "collection", title: "Collection", cell: (/** @type {any} */ line) => line.collection },
    { key: "id", title: "Document", cell: (/** @type {any} */ line) => html`<a href=${address(database, "data", [line.collection, print(line.id)])}>${idText(line.id)}</a>` },
    { key: "changed", title: "Fields", width: "minmax(120px, 2fr)", cell: (/** @type {any} */ line) => line.changed?.map(keyText).join(", ") ?? "" },
    // Rows are drawn again when a device gets its name.
    { key: `by ${devices.size}`, title: "By", width: "minmax(90px, 1.2fr)", cell: by },
  ], [database, devices]);
  const set = (/** @type {string} */ key) => (/** @type {any} */ event) => setForm({ ...form, [key]: event.currentTarget.value });
  const show = (/** @type {any} */ wanted) => {
    try {
      const read = { ...wanted, since: wanted.since.trim().toLowerCase() === "now" ? "" : moment(wanted.since), until: moment(wanted.until) };
      setMistake(null);
      setForm(read);
      refine(read);
    } catch (error) { setMistake(error); }
  };
  // Nothing was changed, or nothing has come yet.
  const isLooking = state.lines.length === 0 && !state.error && !(query.until ? isWhole : link || isPaused);
  const isOffset = /^\d*$/.test(form.since);
  const people = useMemo(() => new Set(state.lines.map(by)), [state.lines, devices]);
  return html`<div class="page live-page">
    <form class="bar" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); show(form); }}>
      <h1>Live</h1>
      <button type="button" class="main" onClick=${() => setPaused(!isPaused)}>${isPaused ? "Go on" : "Pause"}</button>
      <label>Collection <input class="short" value=${form.collection} onInput=${set("collection")} /></label>
      <label class="grow"><span class="hidden">Condition in DQL</span><input data-filter class="code" placeholder="condition over the new value" value=${form.where} onInput=${set("where")} /></label>
      <label>After <input class="moment" list="moments" title="An offset of the log, or a time: 2026-11-26 08:30 in UTC, 08:30 for today, 10 min ago" placeholder="now, offset or time" value=${form.since} onInput=${set("since")} /></label>
      <label>until <input class="moment" list="moments" title="An offset of the log, or a time: 2026-11-26 08:30 in UTC, 08:30 for today, 10 min ago" placeholder="offset or time" value=${form.until} onInput=${set("until")} /></label>
      <${MOMENTS} />
      <button type="submit">Show</button></form>
    <${Problem} error=${mistake} close=${() => setMistake(null)} />
    <div class="slider"><label>From offset <input type="range" min="0" max=${Math.max(head, 1)} value=${isOffset ? Number(form.since || head) : head}
        onInput=${(/** @type {any} */ event) => setForm({ ...form, since: event.currentTarget.value })} onChange=${() => show(form)} /></label>
      <output>${isOffset ? `${grouped(Number(form.since || head))} of ${grouped(head)}` : Number.isNaN(Date.parse(form.since)) ? form.since : exactTime(Date.parse(form.since))}</output></div>
    <div class="bar"><span class="count" role="status">${isLooking || (state.error && state.lines.length === 0) ? "" : counted(state.lines.length, "change")}${state.lines.length ? ` by ${[...people].slice(0, 4).join(", ")}${people.size > 4 ? " and others" : ""}` : ""}</span>
      ${!isPaused && !query.until && !state.error && html`<${LiveBadge} link=${link} />`}
      <span class="end"><button type="button" onClick=${() => setState({ ...state, lines: [] })}>Clear</button>
      <button type="button" onClick=${() => save("changes.ndjson", lines(state.lines), "application/x-ndjson")}>NDJSON</button></span></div>
    <${Problem} error=${state.error} retry=${() => { setPaused(true); setTimeout(() => setPaused(false), 0); }} />
    ${state.lines.length > 0
      ? html`<${Table} label="Changes" rows=${state.lines} columns=${columns} open=${setChosen} rowKey=${(/** @type {any} */ line) => `${line.transactionId}/${line.index}/${line.collection}/${print(line.id)}`} />`
      : state.error ? null : isLooking ? html`<p class="quiet" role="status">Looking …</p>`
      : html`<${Empty} title=${query.until ? "Nothing was changed" : query.since ? "Nothing has changed since then, so far" : "Nothing has changed since this page was opened"}><p>Each write of a peer or over HTTP comes here at once. Move the slider to see earlier ones.</p></${Empty}>`}
    ${chosen && html`<${Change} database=${database} line=${chosen} close=${() => setChosen(null)} />`}
  </div>`;
}

/** One change: before and after, what it did not know of, and its operation's way back. @param {{database: string, line: any, close: () => void}} props */
function Change({ database, line, close }) {
  const offset = Number(line.transactionId);
  // The history knows which writes did not know of each other.
  const found = useLoaded((signal) => client(database).history(line.collection, line.id, { before: offset + 1, limit: 1, signal }), [database, line]);
  /** @type {any[]} */
  const changes = found.value?.entries.find((/** @type {any} */ one) => Number(one.transactionId) === offset)?.changes ?? [];
  const others = changes.filter((one) => one.concurrentWith);
  return html`<${Dialog} title=${`${line.method} of ${idText(line.id)}`} wide close=${close}>
    <p>${line.time} · offset ${grouped(offset)} · user ${line.user ?? "–"} · device ${line.peer ? html`<span title=${line.peer}>${device(line.peer)}</span>` : "–"}</p>
    ${others.map((one) => html`<p key=${print(one.path) + one.action}><code>${pathText(one.path) || "document"}</code> was written <span class="badge state-behind">${atTheSameTime(one.concurrentWith)}</span>${one.written !== undefined && html` as <ins>${preview(one.written, 300)}</ins>`}</p>`)}
    <${Compared} before=${line.oldValue} after=${line.value} />
    <div class="actions"><a class="button" href=${address(database, "data", [line.collection, print(line.id)])} onClick=${close}>Open the document</a>
      ${mayWrite(database, line.collection) && html`<${Undo} database=${database} offset=${offset} title="Undo the whole operation" />`}</div></${Dialog}>`;
}

/** @param {{before: any, after: any}} props */
function Compared({ before, after }) {
  const keys = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return html`<div class="scroll"><table class="plain-table"><thead><tr><th scope="col">Field</th><th scope="col">Before</th><th scope="col">After</th></tr></thead><tbody>
    ${keys.map((key) => {
      const [old, now] = [before?.[key], after?.[key]];
      return html`<tr key=${key} class=${print(old ?? null) === print(now ?? null) ? "quiet" : "mixed"}><th scope="row"><code>${keyText(key)}</code></th><td>${preview(old, 400)}</td><td>${preview(now, 400)}</td></tr>`;
    })}</tbody></table></div>`;
}
