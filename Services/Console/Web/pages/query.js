// @ts-check
/** Statements: an editor that knows the language, results, plans, live results, the past, and what was run. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { client, execute, executeRows } from "../api.js";
import { changeOf, firstWord } from "../dql.js";
import { parse, print } from "../exact.js";
import { counted, duration, grouped, moment } from "../format.js";
import { refine, route } from "../route.js";
import { collectionNames, fields, head as headOf } from "../schema.js";
import { keep, kept, note, useShared } from "../store.js";
import { Dialog, Empty, LiveBadge, MOMENTS, Problem, Time, useLink } from "../parts/basics.js";
import { Undo } from "../parts/undo.js";
import { Editor } from "../parts/editor.js";
import { Plan, planOf } from "../parts/plan.js";
import { Results, save } from "../parts/results.js";

const KEPT = 200;
/** Rows of an answer that are read at first; "Show more" runs the statement again for ten times as many. */
const MOST = 1000;

/** Names for the completion, read when they are first asked for. @param {string} database */
function useNames(database) {
  const names = useRef({ collections: /** @type {string[]} */ ([]), fields: /** @type {string[][]} */ ([]), of: "" });
  useEffect(() => { collectionNames(database).then((found) => { names.current.collections = found; }, () => {}); }, [database]);
  return (/** @type {string} */ statement) => {
    const found = /\b(?:FROM|INTO|UPDATE)\s+(?:COLLECTION\s+)?(?:`((?:[^`]|``)+)`|([A-Za-z_]\w*))/i.exec(statement);
    const collection = found?.[1]?.replaceAll("``", "`") ?? found?.[2] ?? "";
    if (collection && collection !== names.current.of) {
      names.current.of = collection;
      names.current.fields = [];
      fields(database, collection).then((paths) => { names.current.fields = paths; }, () => {});
    }
    return names.current;
  };
}

/** @param {{database: string}} props */
export function Query({ database }) {
  const place = useShared(route);
  const [text, setText] = useState(place.query.q ?? kept(`draft.${database}`, "SELECT * FROM system:collections"));
  const [args, setArgs] = useState(place.query.args ?? "{}");
  const [asOf, setAsOf] = useState(place.query.asOf ?? "");
  const [view, setView] = useState("table");
  const [run, setRun] = useState(/** @type {any} */ (null));
  const [isLive, setLive] = useState(false);
  const [list, setList] = useState(/** @type {string | null} */ (null));
  const [head, setHead] = useState(0);
  const [asked, setAsked] = useState(/** @type {any} */ (null));
  const stop = useRef(/** @type {AbortController | null} */ (null));
  const [link, onConnection] = useLink();
  const names = useNames(database);
  useEffect(() => () => stop.current?.abort(), []);
  useEffect(() => { keep(`draft.${database}`, text); }, [text]);

  /** @param {string} statement @param {boolean} follows @param {{most?: number, isSure?: boolean}} [how] */
  const start = async (statement, follows, { most = MOST, isSure = false } = {}) => {
    setAsked(null);
    let at = "";
    try {
      at = moment(asOf);
      if (at !== asOf) setAsOf(at);
    } catch (error) { return setRun({ error }); }
    stop.current?.abort();
    stop.current = new AbortController();
    const { signal } = stop.current;
    let given;
    try {
      given = parse(args || "{}", { strict: true });
    } catch (error) {
      return setRun({ error: { code: "ARGUMENTS", message: `The parameters are no JSON: ${/** @type {Error} */ (error).message}` } });
    }
    refine({ q: statement, args: args === "{}" ? "" : args, asOf: at });
    const begun = performance.now();
    setRun((/** @type {any} */ old) => ({ ...old, isRunning: true, error: null, begun, count: 0 }));
    remember(database, statement, args);
    const change = isSure || follows || at !== "" ? null : changeOf(statement);
    try {
      if (change) {
        const { count, problem } = await countOf(database, change, given, signal);
        // Whoever has stopped it has said so, or has begun another one.
        if (signal.aborted) return;
        if (count === null || count > 1) {
          setRun(null);
          return setAsked({ ...change, count, problem, act: () => start(statement, false, { isSure: true }) });
        }
      }
      if (follows) {
        for await (const { rows, transactionId } of client(database).observe(statement, given, { signal, onConnection })) {
          setRun({ statement, rows, transactionId, isLive: true, took: null, warnings: [] });
        }
        return setRun((/** @type {any} */ old) => ({ ...old, isLive: false }));
      }
      const told = (/** @type {number} */ count) => setRun((/** @type {any} */ old) => ({ ...old, count }));
      // Only a query can be asked again: a write's rows come once. The last row of a profile has the plan.
      const verb = firstWord(statement);
      const { rows, count, last, envelope } = await executeRows(database, statement, given, {
        most: ["SELECT", "PROFILE"].includes(verb) ? most : Infinity, isWhole: verb === "PROFILE", asOf: /^\d+$/.test(at) ? Number(at) : at, signal, told,
      });
      if (at === "") setHead(envelope ? Number(envelope.transactionId) : await headOf(database, signal));
      const plan = ["explain", "profile", "advise"].includes(envelope?.queryType) || planOf(last)?.["#operator"] ? last : null;
      setRun({
        statement, rows: plan && count === rows.length ? rows.slice(0, -1) : rows, total: plan ? count - 1 : count, plan, transactionId: envelope?.transactionId, type: envelope?.queryType ?? "select",
        ids: envelope?.mutatedDocumentIds, warnings: envelope?.warnings ?? [], took: performance.now() - begun,
        more: envelope ? null : () => start(statement, false, { most: most * 10 }),
      });
    } catch (error) {
      if (signal.aborted) return;
      setRun({ statement, error, isSelection: statement !== text });
    }
  };
  const statementOf = (/** @type {string} */ selection) => (selection || text).trim().replace(/;\s*$/, "");
  const cancel = () => { stop.current?.abort(); setRun((/** @type {any} */ old) => ({ ...old, isRunning: false, isLive: false })); };
  const prefixed = (/** @type {string} */ word) => start(`${word} ${statementOf("").replace(/^(EXPLAIN|PROFILE|ADVISE)\s+/i, "")}`, false);
  const mark = run?.error?.details?.line && !run.isSelection && run.statement === statementOf("") ? { line: run.error.details.line, column: run.error.details.column } : null;

  return html`<div class="page query"><h1 class="hidden">Query</h1>
    <div class="bar">
      ${run?.isRunning || run?.isLive
        ? html`<button type="button" class="main" onClick=${cancel}>Stop</button>`
        : html`<button type="button" class="main" title="Ctrl Enter" onClick=${() => start(statementOf(""), isLive)}>Run</button>`}
      <label class="check"><input type="checkbox" checked=${isLive} onChange=${(/** @type {any} */ event) => setLive(event.currentTarget.checked)} />Live</label>
      <button type="button" onClick=${() => prefixed("EXPLAIN")}>Explain</button>
      <button type="button" onClick=${() => prefixed("PROFILE")}>Profile</button>
      <button type="button" onClick=${() => prefixed("ADVISE")}>Advise</button>
      <label>As of <input class="moment" list="moments" title="An offset of the log, or a time: 2026-11-26 08:30 in UTC, 08:30 for today, 10 min ago" placeholder="now, offset or time" value=${asOf} onInput=${(/** @type {any} */ event) => setAsOf(event.currentTarget.value)} /></label>
      ${head > 0 && html`<label title="Moves through the log"><span class="hidden">Offset in the log</span><input type="range" min="0" max=${head} value=${/^\d+$/.test(asOf) ? Number(asOf) : head}
        onInput=${(/** @type {any} */ event) => setAsOf(Number(event.currentTarget.value) >= head ? "" : event.currentTarget.value)}
        onChange=${() => start(statementOf(""), false)} /></label>`}
      <${MOMENTS} /><span class="end"><button type="button" onClick=${() => setList("history")}>History</button>
      <button type="button" onClick=${() => setList("saved")}>Saved</button>
      <button type="button" onClick=${() => { saveStatement(database, statementOf(""), args); note("Saved in this browser"); }}>Save</button></span>
    </div>
    <${Editor} label="Statement" mode="dql" value=${text} change=${setText} run=${(/** @type {string} */ selection) => start(statementOf(selection), isLive)}
      names=${() => names(text)} mark=${mark} />
    <details class="parameters" open=${args !== "{}"}><summary>Parameters</summary>
      <label><span class="hidden">Parameters as JSON</span><textarea rows="2" aria-label="Parameters as JSON" spellcheck=${false} value=${args} placeholder='{"color": "red"}  for  :color'
        onInput=${(/** @type {any} */ event) => setArgs(event.currentTarget.value)}></textarea></label></details>
    <${Problem} error=${run?.error} close=${() => setRun(null)} />
    ${run?.warnings?.map((/** @type {any} */ warning) => html`<p class="warning">${warning.description}${warning.code && html` <code>${warning.code}</code>`}</p>`)}
    ${run?.plan && (run.plan.advice ? html`<${Advice} advice=${run.plan.advice} run=${(/** @type {string} */ statement) => start(statement, false)} />` : html`<${Plan} row=${run.plan} />`)}
    ${run && !run.error && (run.isRunning || run.rows) && html`<p class="outcome" role="status">${run.isRunning ? html`<${Running} begun=${run.begun} count=${run.count} />` : run.isLive
      ? html`<${LiveBadge} link=${link} /> at offset ${grouped(run.transactionId)}`
      : run.more ? `The first ${counted(run.rows.length, "row")} in ${duration(run.took)}; there are more`
      : html`${run.took === null ? "live until it was stopped" : `${run.type} in ${duration(run.took)}`}, at offset ${grouped(Number(run.transactionId))}${run.ids?.length ? `, ${counted(run.ids.length, "document")} changed` : ""}`}
      ${!run.isRunning && run.ids?.length > 0 && html` <${Undo} key=${run.transactionId} database=${database} offset=${Number(run.transactionId)} />`}</p>`}
    ${run?.rows && !run.error && (run.rows.length > 0 || !(run.plan || run.ids?.length)) && html`<${Results} name=${database} rows=${run.rows} total=${run.total} view=${view} setView=${setView} more=${run.isRunning ? null : run.more} />`}
    ${!run && html`<${Empty} title="Write a statement"><p><kbd>Ctrl Enter</kbd> runs it, or the part that is selected. <kbd>Ctrl Space</kbd> completes.</p></${Empty}>`}
    ${asked && html`<${Ask} asked=${asked} close=${() => setAsked(null)} />`}
    ${list && html`<${Statements} title=${list === "history" ? "History" : "Saved statements"} name=${`${list}.${database}`} close=${() => setList(null)}
      choose=${(/** @type {any} */ one) => { setText(one.statement); setArgs(one.args ?? "{}"); setList(null); }} />`}
  </div>`;
}

/**
 * How many documents a statement would change; null, and why, where that is not known. It throws a mistake of it.
 * @param {string} database @param {import("../dql.js").Change} change @param {any} args @param {AbortSignal} signal
 */
async function countOf(database, change, args, signal) {
  // A mistake of it is told at its place, and nothing is asked.
  await execute(database, change.explain, args, { signal, quiet: true }).catch((error) => {
    if (error.status === 400) throw Object.assign(error, { details: change.placed(error.details) });
  });
  if (change.count === null) return { count: change.number, problem: null };
  try {
    const { items } = await execute(database, change.count, args, { signal, quiet: true });
    return { count: change.left(Number(items[0] ?? 0), args), problem: null };
  } catch (problem) { return { count: null, problem }; }
}

/** The question before a statement that changes more than one document. @param {{asked: any, close: () => void}} props */
function Ask({ asked, close }) {
  const title = `${asked.verb} ${asked.count === null ? "documents" : counted(asked.count, "document")} of ${asked.of}`;
  return html`<${Dialog} title=${`${title}?`} close=${close}>
    ${asked.count === null && html`<p class="warning">The number is not known${asked.problem ? `: ${asked.problem.message}` : ": it depends on groups of rows"}</p>`}
    <p>Nothing was changed yet. Afterwards Undo beside the answer brings the former values back, as far as nobody has changed them meanwhile.</p>
    <div class="actions"><button type="button" class="danger" onClick=${asked.act}>${asked.verb} ${asked.count === null ? "them" : grouped(asked.count)}</button>
      <button type="button" autofocus onClick=${close}>Cancel</button></div></${Dialog}>`;
}

/** How long a statement runs, and how many rows have come. @param {{begun: number, count: number}} props */
function Running({ begun, count }) {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return html`Running for ${duration(Math.max(0, now - begun))} …${count > 0 ? ` ${counted(count, "row")} so far` : ""}`;
}

/** @param {string} database @param {string} statement @param {string} args */
function remember(database, statement, args) {
  const all = kept(`history.${database}`, /** @type {any[]} */ ([])).filter((one) => one.statement !== statement);
  keep(`history.${database}`, [{ statement: statement.slice(0, 20_000), args: args.slice(0, 20_000), at: Date.now() }, ...all].slice(0, KEPT));
}

/** @param {string} database @param {string} statement @param {string} args */
function saveStatement(database, statement, args) {
  const all = kept(`saved.${database}`, /** @type {any[]} */ ([])).filter((one) => one.statement !== statement);
  keep(`saved.${database}`, [{ statement, args, at: Date.now() }, ...all]);
}

/** @param {{title: string, name: string, close: () => void, choose: (one: any) => void}} props */
function Statements({ title, name, close, choose }) {
  const [all, setAll] = useState(kept(name, /** @type {any[]} */ ([])));
  const [filter, setFilter] = useState("");
  const drop = (/** @type {any} */ one) => { const rest = all.filter((other) => other !== one); setAll(rest); keep(name, rest); };
  return html`<${Dialog} title=${title} wide beside close=${close}>
    <div class="bar"><input aria-label="Filter" placeholder="Filter" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)} />
      <span class="end"><button type="button" onClick=${() => save(`${name}.json`, [print(all, 2)], "application/json")}>Export</button></span></div>
    ${all.length === 0 && html`<p class="quiet">Nothing yet. Statements are kept in this browser only.</p>`}
    <ul class="statements">${all.filter((one) => one.statement.toLowerCase().includes(filter.toLowerCase())).map((one) => html`<li key=${one.at + one.statement}>
      <button type="button" class="statement" onClick=${() => choose(one)}>${one.statement}</button>
      <span class="quiet"><${Time} at=${one.at} /></span><button type="button" class="plain" aria-label="Remove" onClick=${() => drop(one)}>✕</button></li>`)}</ul></${Dialog}>`;
}

/** @param {{advice: any, run: (statement: string) => void}} props */
function Advice({ advice, run }) {
  return html`<div class="plan"><p><b>${advice.outcome}</b></p>
    ${(advice.suggestedIndexes ?? []).map((/** @type {any} */ one) => html`<div class="step"><p><code>${one.statement}</code>
      <button type="button" onClick=${() => run(one.statement)}>Create the index</button></p><p class="quiet">${one.reason}</p></div>`)}</div>`;
}
