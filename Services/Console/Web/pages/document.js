// @ts-check
/**
 * One document: its value live, its edit by changed paths, its history as a story, and the past on a slider.
 */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { client, execute } from "../api.js";
import { differences, name, update } from "../dql.js";
import { isAttachment, kind, MalformedJSON, parse, print } from "../exact.js";
import { grouped, idText, keyText, pathText, preview } from "../format.js";
import { by, device, useDevices } from "../author.js";
import { changesBetween, insertingAgain, takingBack } from "../reversal.js";
import { address } from "../route.js";
import { mayRead, mayWrite, note, ownRights } from "../store.js";
import { copy, Dialog, Empty, LiveBadge, Looking, Problem, Time, useLink, useLoaded, useSeen } from "../parts/basics.js";
import { Picture } from "../parts/attachment.js";
import { atTheSameTime, Conflicts } from "../parts/conflicts.js";
import { Editor } from "../parts/editor.js";
import { FieldEdit } from "../parts/field.js";
import { undoWhole } from "../parts/undo.js";
import { Text, Tree } from "../parts/value.js";

/** @param {{database: string, collection: string, id: string}} props `id` is JSON. */
export function DocumentPage({ database, collection, id: source }) {
  const [id] = useState(() => { try { return parse(source); } catch { return source; } });
  const [state, setState] = useState({ value: /** @type {any} */ (undefined), offset: 0, error: /** @type {any} */ (null), isFresh: false });
  const [edit, setEdit] = useState(/** @type {any} */ (null));
  const [tab, setTab] = useState("value");
  const [turn, setTurn] = useState(0);
  const [isDeleting, setDeleting] = useState(false);
  const [changing, setChanging] = useState(/** @type {any} */ (null));
  const seen = useRef(0);
  const isSeen = useSeen();
  const [link, onConnection] = useLink();
  useEffect(() => {
    if (!isSeen || !mayRead(database, collection)) return undefined;
    const stop = new AbortController();
    seen.current = 0;
    (async () => {
      const statement = `SELECT * FROM ${name(collection)} WHERE _id = :id`;
      for await (const { rows, transactionId } of client(database).observe(statement, { id }, { signal: stop.signal, onConnection })) {
        setState({ value: rows[0] ?? null, offset: transactionId, error: null, isFresh: seen.current > 0 });
        seen.current += 1;
      }
    })().catch((error) => { if (!stop.signal.aborted) setState((/** @type {any} */ old) => ({ ...old, error })); });
    return () => stop.abort();
  }, [database, collection, source, turn, isSeen]);
  useDevices(database);
  const mayChange = mayWrite(database, collection);
  const begin = () => setEdit({ base: state.value, text: print(state.value, 2) });
  useEffect(() => {
    const keys = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (target.closest?.("input, textarea, select, dialog, .CodeMirror")) return;
      if (event.key === "e" && !edit && state.value && mayChange) { event.preventDefault(); begin(); }
      if (event.key === "Escape" && !edit) history.back();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  });
  const remove = async () => {
    const answer = await execute(database, `DELETE FROM ${name(collection)} WHERE _id = :id`, { id });
    note(`Deleted ${idText(id)}`, { undo: () => undoWhole(database, answer) });
    setDeleting(false);
  };
  if (!mayRead(database, collection)) return html`<${Empty} whole title=${`You may not read ${collection}`}><p>Your credential ${ownRights(database)}.</p></${Empty}>`;
  return html`<div class="page document">
    <div class="bar"><a class="button" href=${address(database, "data", [collection])}>← ${collection}</a><h1>${idText(id)}</h1>
      ${state.error ? "" : html`<${LiveBadge} link=${link} />`}<span class="end">
      ${state.value && !edit && mayChange && html`<button type="button" class="main" onClick=${begin}>Edit</button>`}
      ${state.value && html`<button type="button" onClick=${() => copy(print(state.value, 2))}>Copy</button>
        ${mayChange && html`<button type="button" class="danger" onClick=${() => setDeleting(true)}>Delete</button>`}`}</span></div>
    <div class="tabs" role="tablist" aria-label="View of the document">${[["value", "Value"], ["json", "JSON"], ["history", "History"], ["past", "Past"]].map(([key, label]) => html`
      <button key=${key} type="button" role="tab" aria-selected=${tab === key} onClick=${() => setTab(key)}>${label}</button>`)}</div>
    <${Problem} error=${state.error} retry=${() => setTurn(turn + 1)} />
    <${Looking} found=${{ value: state.value !== undefined, error: state.error }} />
    ${state.value && !edit && html`<${Conflicts} database=${database} collection=${collection} id=${id} offset=${state.offset} mayWrite=${mayChange} />`}
    ${edit ? html`<${Edit} database=${database} collection=${collection} id=${id} edit=${edit} now=${state.value} change=${(/** @type {any} */ next) => setEdit(next)} />`
    : tab === "value" ? (state.value ? html`<div class=${`scroll card ${state.isFresh ? "fresh" : ""}`} key=${state.offset}><${Tree} value=${state.value} open=${3} change=${mayChange ? (/** @type {string[]} */ path, /** @type {any} */ value) => setChanging({ path, value }) : undefined} /></div>
        <${Pictures} database=${database} value=${state.value} />`
      : state.value === null && html`<${Empty} title="No such document"><p>It was deleted, or never was. Its history may still be known.</p></${Empty}>`)
    : tab === "json" ? state.value && html`<${Text} value=${state.value} />`
    : tab === "history" ? html`<${History} database=${database} collection=${collection} id=${id} offset=${state.offset} now=${state.value} />`
    : html`<${Past} database=${database} collection=${collection} id=${id} now=${state.value} />`}
    ${changing && html`<${FieldEdit} database=${database} collection=${collection} id=${id} path=${changing.path} value=${changing.value} close=${() => setChanging(null)} />`}
    ${isDeleting && html`<${Confirm} title=${`Delete ${idText(id)}`} act=${remove} close=${() => setDeleting(false)} />`}
  </div>`;
}

/** @param {{title: string, act: () => Promise<void>, close: () => void}} props */
function Confirm({ title, act, close }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  return html`<${Dialog} title=${title} close=${close}><p>It can be undone for some seconds, and later by its history.</p><${Problem} error=${problem} />
    <div class="actions"><button type="button" class="danger" onClick=${() => act().catch(setProblem)}>Delete</button><button type="button" onClick=${close}>Cancel</button></div></${Dialog}>`;
}

/**
 * The edit as JSON. Only paths that were changed are written, and only if nobody else has changed them.
 * @param {{database: string, collection: string, id: any, edit: {base: any, text: string}, now: any, change: (next: any) => void}} props
 */
function Edit({ database, collection, id, edit, now, change }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  let wanted;
  let mistake = null;
  try {
    wanted = parse(edit.text, { strict: true });
    if (kind(wanted) !== "object") throw new Error("A document is an object");
    if (print(wanted._id) !== print(id)) throw new Error("The _id of a document cannot change; insert another document instead");
  } catch (error) {
    mistake = { code: "JSON", message: /** @type {Error} */ (error).message, details: error instanceof MalformedJSON ? error : {} };
  }
  const own = mistake ? [] : differences(edit.base, wanted);
  const others = now ? differences(edit.base, now) : [];
  const both = others.filter(({ path }) => own.some((one) => overlaps(one.path, path)));
  const made = own.length > 0 ? update(collection, id, own) : null;
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!made) return change(null);
    setBusy(true);
    setProblem(null);
    try {
      const answer = await execute(database, made.statement, made.args);
      if (answer.mutatedDocumentIds.length === 0) {
        setProblem({ code: "CHANGED", message: "Not saved: somebody has changed the same fields meanwhile. Both sides are below." });
      } else {
        const saved = `Saved ${own.map(({ path }) => pathText(path)).slice(0, 3).join(", ")}${own.length > 3 ? " …" : ""}`;
        note([saved, ...answer.warnings.map((/** @type {any} */ one) => one.description)].join(". "), { undo: () => undoWhole(database, answer) });
        change(null);
      }
    } catch (error) { setProblem(error); }
    setBusy(false);
  };
  const rebase = () => {
    let text = now;
    for (const { path, after } of own) text = withPath(text, path, after);
    change({ base: now, text: print(text, 2) });
    setProblem(null);
  };
  return html`<form class="edit" onSubmit=${submit}>
    <${Editor} label="Document as JSON" mode="exact-json" focus value=${edit.text} change=${(/** @type {string} */ text) => change({ ...edit, text })} mark=${mistake?.details} />
    <${Problem} error=${problem} close=${() => setProblem(null)} />
    ${mistake && html`<p class="warning">${mistake.message}</p>`}
    ${others.length > 0 && html`<div class=${`meanwhile ${both.length ? "conflict" : ""}`} role="status"><p><b>${both.length ? "The same fields were changed meanwhile" : "Others have changed the document meanwhile"}</b>
      ${both.length ? "" : ": your fields are untouched, and can be saved."}</p>
      <table class="plain-table"><thead><tr><th scope="col">Field</th><th scope="col">Was</th><th scope="col">Now there</th><th scope="col">Yours</th></tr></thead><tbody>
      ${others.map((one) => html`<tr key=${one.path.join("\u0000")}><th scope="row"><code>${pathText(one.path)}</code></th><td>${preview(one.before)}</td><td>${preview(one.after)}</td>
        <td>${preview(own.find(({ path }) => overlaps(path, one.path))?.after)}</td></tr>`)}</tbody></table>
      <button type="button" onClick=${rebase}>Put my changes upon theirs</button></div>`}
    ${made && html`<details open><summary>Statement: ${own.length} ${own.length === 1 ? "field" : "fields"}</summary><pre>${made.statement}</pre></details>`}
    <div class="actions"><button type="submit" class="main" disabled=${isBusy || Boolean(mistake)}>${made ? "Save" : "Nothing changed"}</button>
      <button type="button" onClick=${() => change(null)}>Cancel</button></div></form>`;
}

/** @param {string[]} a @param {string[]} b */
function overlaps(a, b) { return a.slice(0, b.length).every((part, index) => part === b[index]) || b.slice(0, a.length).every((part, index) => part === a[index]); }

/** @param {any} value @param {string[]} path @param {any} after @returns {any} */
function withPath(value, path, after) {
  if (path.length === 0) return after;
  return { ...(kind(value) === "object" ? value : {}), [path[0]]: withPath(value?.[path[0]], path.slice(1), after) };
}

/** All attachments of a document, as pictures where they are. @param {{database: string, value: any}} props */
function Pictures({ database, value }) {
  /** @type {{path: string, token: any}[]} */
  const found = [];
  const look = (/** @type {any} */ one, /** @type {string} */ path) => {
    if (one === null || typeof one !== "object" || found.length >= 24) return;
    if (isAttachment(one)) found.push({ path, token: one });
    else for (const key of Object.keys(one)) look(one[key], path ? `${path}.${keyText(key)}` : keyText(key));
  };
  look(value, "");
  if (found.length === 0) return null;
  return html`<section class="pictures" aria-label="Attachments">${found.map(({ path, token }) => html`<${Picture} key=${path} database=${database} name=${path} token=${token} />`)}</section>`;
}

/** @param {{database: string, collection: string, id: any, offset: number, now: any}} props */
function History({ database, collection, id, offset, now }) {
  const [before, setBefore] = useState(/** @type {number | undefined} */ (undefined));
  const [older, setOlder] = useState(/** @type {any[]} */ ([]));
  const found = useLoaded((signal) => client(database).history(collection, id, { limit: 100, before, signal }), [database, collection, print(id), offset, before]);
  const entries = [...older, ...(found.value?.entries ?? [])];
  const restore = async (/** @type {any} */ entry) => {
    const made = takingBack(collection, id, entry.changes, (path) => valueAt(now, path));
    const answer = made && await execute(database, made.statement, made.args);
    note(answer?.mutatedDocumentIds.length ? "The earlier values are back" : "Not restored: the document has changed meanwhile");
  };
  return html`<section class="story" aria-label="History">
    <${Problem} error=${found.error} retry=${found.again} /><${Looking} found=${found} />
    ${found.value && entries.length === 0 && html`<${Empty} title="Nothing is known of its past"><p>The log has no change of this document.</p></${Empty}>`}
    ${found.value && !found.value.complete && html`<p class="quiet">The log begins at offset ${grouped(Number(found.value.oldest))}: what was before is not known.</p>`}
    <ol>${entries.map((entry) => html`<li key=${entry.transactionId}>
      <header><b>${by(entry)}</b>${entry.user && entry.peer ? html` <span class="quiet">on ${device(entry.peer)}</span>` : ""}
        <${Time} at=${Date.parse(entry.time)} /> <span class="quiet">offset ${grouped(Number(entry.transactionId))}</span>
        ${now && mayWrite(database, collection) && entry.changes.every((/** @type {any} */ one) => one.path.length > 0) && entry.changes.some((/** @type {any} */ one) => one.written === undefined) && html`<button type="button" onClick=${() => restore(entry).catch((error) => note(`Not restored: ${error.message}`))}>Take back</button>`}</header>
      <ul>${entry.changes.slice(0, 200).map((/** @type {any} */ one) => html`<li key=${one.path.join("\u0000") + one.action}>
        <code>${one.path.length ? pathText(one.path) : "document"}</code> <span class="badge">${one.action}</span>
        ${one.written !== undefined ? html`<ins>${preview(one.written, 300)}</ins> <span class="quiet">while <code>${preview(one.new, 300)}</code> shows</span>`
        : html`${one.old !== undefined && html`<del>${preview(one.old, 300)}</del>`} ${one.new !== undefined && html`<ins>${preview(one.new, 300)}</ins>`}`}
        ${one.concurrentWith && html` <span class="badge state-behind" title="Whoever wrote this did not know of the other write">${atTheSameTime(one.concurrentWith)}</span>`}</li>`)}</ul></li>`)}</ol>
    ${found.value?.more && html`<button type="button" onClick=${() => { setOlder(entries); setBefore(Number(entries[entries.length - 1].transactionId)); }}>Earlier</button>`}
  </section>`;
}

/** @param {any} value @param {string[]} path @returns {any} */
function valueAt(value, path) { return path.reduce((/** @type {any} */ one, key) => one?.[key], value); }

/** The document at any moment of its history. @param {{database: string, collection: string, id: any, now: any}} props */
function Past({ database, collection, id, now }) {
  const story = useLoaded((signal) => client(database).history(collection, id, { limit: 1000, signal }), [database, collection, print(id)]);
  const moments = [...(story.value?.entries ?? [])].reverse();
  const [place, setPlace] = useState(/** @type {number | null} */ (null));
  const at = Math.min(place ?? moments.length - 1, moments.length - 1);
  const moment = moments[at];
  const earlier = moments.slice(0, at + 1).flatMap((/** @type {any} */ one) => one.changes);
  const state = useLoaded(async (signal) => moment ? (await client(database).history(collection, id, { at: Number(moment.transactionId), signal })).document : null, [moment?.transactionId]);
  const restore = async () => {
    const made = takingBack(collection, id, changesBetween(now, state.value, earlier));
    const answer = made && await execute(database, made.statement, made.args);
    note(answer?.mutatedDocumentIds.length ? "Restored" : "Not restored: the document has changed meanwhile");
  };
  const bringBack = async () => {
    const made = insertingAgain(collection, id, changesBetween(null, state.value, earlier));
    await execute(database, made.statement, made.args);
    note("The document is back");
  };
  const changes = now && state.value ? differences(state.value, now) : [];
  return html`<section aria-label="Past">
    <${Problem} error=${story.error ?? state.error} retry=${story.again} /><${Looking} found=${story} />
    ${story.value && moments.length === 0 && html`<${Empty} title="Nothing is known of its past"><p>The log has no change of this document.</p></${Empty}>`}
    ${moments.length > 0 && html`<div class="slider"><label>Moment ${at + 1} of ${moments.length}
        <input type="range" min="0" max=${moments.length - 1} value=${at} onInput=${(/** @type {any} */ event) => setPlace(Number(event.currentTarget.value))} /></label>
      <p><${Time} at=${Date.parse(moment.time)} />, offset ${grouped(Number(moment.transactionId))}, by <b>${by(moment)}</b>
        <a class="button" href=${address(database, "query", [], { q: `SELECT * FROM ${name(collection)}`, asOf: String(moment.transactionId) })}>The collection then</a></p></div>`}
    ${now === null && state.value && mayWrite(database, collection) && html`<p><button type="button" onClick=${() => bringBack().catch((error) => note(`Not restored: ${error.message}`))}>Bring this document back</button></p>`}
    ${state.value ? html`<div class="card scroll"><${Tree} value=${state.value} open=${3} /></div>` : moment && !state.isLoading && html`<${Empty} title="There was no such document then" />`}
    ${changes.length > 0 && html`<h2>What is different now</h2><table class="plain-table"><thead><tr><th scope="col">Field</th><th scope="col">Then</th><th scope="col">Now</th></tr></thead><tbody>
      ${changes.slice(0, 200).map((one) => html`<tr key=${one.path.join("\u0000")}><th scope="row"><code>${pathText(one.path)}</code></th><td>${preview(one.before)}</td><td>${preview(one.after)}</td></tr>`)}</tbody></table>
      ${mayWrite(database, collection) && html`<button type="button" onClick=${() => restore().catch((error) => note(`Not restored: ${error.message}`))}>Restore this state</button>`}`}
  </section>`;
}
