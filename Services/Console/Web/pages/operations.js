// @ts-check
/** How the server is: health of its parts, plots of the last hour, the log, running statements, the audit. */

import { html, useState } from "../vendor/preact.js";
import { call, serves } from "../api.js";
import { bytes, duration, grouped } from "../format.js";
import { note } from "../store.js";
import { Empty, Problem, Time, useLoaded, useRepeated } from "../parts/basics.js";
import { Line } from "../parts/plot.js";

/** Metrics with titles of their own; all others are listed under their names. */
const TITLES = /** @type {Record<string, string>} */ ({
  http_requests_total: "Requests per second", http_request_duration_seconds: "Mean time of a request", websocket_connections: "Connections of peers",
  process_resident_memory_bytes: "Memory",
});

/** A metric's points as they are drawn: a counter as its rate, a histogram as its mean. @param {any} series @returns {[number, number][]} */
export function drawn(series) {
  const points = series.points.map((/** @type {any[]} */ point) => point.map(Number));
  if (series.kind === "gauge") return points;
  return points.slice(1).map((/** @type {number[]} */ point, /** @type {number} */ index) => {
    const before = points[index];
    const seconds = (point[0] - before[0]) / 1000;
    // A counter that falls belongs to a process that was started again.
    if (series.kind === "counter") return [point[0], point[1] >= before[1] ? (point[1] - before[1]) / seconds : 0];
    const count = point[2] - before[2];
    return [point[0], count > 0 ? (point[1] - before[1]) / count : 0];
  });
}

/** @param {any} series */
function unit(series) {
  if (series.name.endsWith("_bytes")) return bytes;
  return series.name.endsWith("_seconds") && series.kind === "histogram" ? (/** @type {number} */ value) => duration(value * 1000) : undefined;
}

/** @param {{database: string | null}} props */
export function Operations({ database }) {
  const [step, setStep] = useState("5");
  const metrics = useLoaded(() => call("GET", `/admin/metrics/series?step=${step}`, { quiet: true }), [step]);
  const health = useLoaded(async () => (await fetch("/health", { cache: "no-store" })).json(), []);
  useRepeated(() => { metrics.again(); health.again(); }, 5000, [step]);
  const known = Object.keys(TITLES);
  const series = (metrics.value?.series ?? []).filter((/** @type {any} */ one) => one.name !== "mimeo_build_info")
    .sort((/** @type {any} */ a, /** @type {any} */ b) => (known.indexOf(b.name) - known.indexOf(a.name)) || (a.name < b.name ? -1 : 1));
  return html`<div class="page operations"><div class="bar"><h1>Operations</h1><label>Plots <select value=${step} onChange=${(/** @type {any} */ event) => setStep(event.currentTarget.value)}>
      <option value="5">last hour</option><option value="60">last day</option></select></label></div>
    <section class="card" aria-label="Health"><h2>Health</h2><ul class="checks">${Object.entries(health.value?.checks ?? {}).map(([name, check]) => html`<li key=${name}>
      <span class=${`dot ${/** @type {any} */ (check).status === "ok" ? "there" : "away"}`}>${name}</span> ${/** @type {any} */ (check).detail ?? ""}</li>`)}</ul>
      <p class="quiet">Version ${health.value?.version}${health.value?.commit ? ` of ${health.value.commit}` : ""}</p></section>
    <${Problem} error=${metrics.error} retry=${metrics.again} />
    <div class="plots">${series.map((/** @type {any} */ one) => html`<${Line} key=${one.name} title=${TITLES[one.name] ?? one.name} points=${drawn(one)} show=${unit(one)} />`)}</div>
    ${database && html`<${Log} database=${database} /><${Projection} database=${database} /><${Requests} database=${database} />`}
    <${Audit} /></div>`;
}

/** @param {{database: string}} props */
function Log({ database }) {
  const path = `/admin/replicator/databases/${encodeURIComponent(database)}`;
  const found = useLoaded(async () => {
    const all = (await call("GET", "/admin/replicator/databases", { quiet: true })).databases;
    const facts = all.find((/** @type {any} */ one) => (one.id ?? one.database) === database) ?? {};
    const after = Math.max(0, Number(facts.head ?? 0) - 30);
    return { facts, operations: (await call("GET", `${path}/log?after=${after}&limit=30`, { quiet: true })).operations.reverse() };
  }, [database]);
  useRepeated(found.again, 3000, []);
  const act = async (/** @type {string} */ part, /** @type {string} */ done) => {
    try { await call("POST", `${path}/${part}`); note(done); found.again(); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); }
  };
  return html`<section class="card" aria-label="Log"><header><h2>Log</h2><span class="end"><button type="button" onClick=${() => act("snapshots", "The snapshot is written")}>Snapshot now</button>
      <button type="button" onClick=${() => act("truncations", "What the snapshot stands for is removed")}>Truncate</button></span></header>
    <${Problem} error=${found.error} retry=${found.again} />
    ${found.value && html`<dl class="facts">${Object.entries(found.value.facts).filter(([, value]) => value !== null && typeof value !== "object").map(([key, value]) => html`<div key=${key}><dt>${key}</dt><dd>${typeof value === "number" ? grouped(value) : String(value)}</dd></div>`)}</dl>
    <div class="scroll short-scroll"><table class="plain-table"><thead><tr><th scope="col">Offset</th><th scope="col">Time</th><th scope="col">Actor</th><th scope="col">Bytes</th><th scope="col">Documents</th></tr></thead><tbody>
      ${found.value.operations.map((/** @type {any} */ one) => html`<tr key=${one.offset}><td>${grouped(Number(one.offset))}</td><td><${Time} at=${Number(one.milliseconds)} /></td><td><code>${one.actor}</code></td><td>${bytes(Number(one.bytes))}</td>
        <td>${one.documents.slice(0, 3).map((/** @type {any} */ document) => `${document.collection}/${typeof document.id === "string" ? document.id : JSON.stringify(document.id)}`).join(", ")}${Number(one.changes) > 3 ? ` and ${Number(one.changes) - 3} more` : ""}</td></tr>`)}</tbody></table></div>`}</section>`;
}

/** The projection of the query-service, where it tells of it. @param {{database: string}} props */
function Projection({ database }) {
  const path = `/admin/query-service/databases/${encodeURIComponent(database)}`;
  const base = "/admin/query-service/databases/{database}";
  const found = useLoaded(async () => await serves(`${base}/projection`) ? call("GET", `${path}/projection`, { quiet: true }) : null, [database]);
  const slow = useLoaded(async () => await serves(`${base}/slow`) ? call("GET", `${path}/slow`, { quiet: true }) : null, [database]);
  useRepeated(() => { if (found.value) found.again(); if (slow.value) slow.again(); }, 3000, []);
  const statements = slow.value?.statements ?? [];
  const rebuild = async () => {
    try { await call("POST", `${path}/rebuilds`, { body: {} }); note("The projection is being rebuilt"); found.again(); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); }
  };
  if (!found.value && !slow.value && !found.error) return null;
  return html`<section class="card" aria-label="Projection"><header><h2>Projection</h2><span class="end"><button type="button" onClick=${rebuild}>Rebuild</button></span></header>
    <${Problem} error=${found.error ?? slow.error} retry=${found.again} />
    ${found.value && html`<dl class="facts">${Object.entries(found.value).filter(([, value]) => value !== null && typeof value !== "object").map(([key, value]) => html`<div key=${key}><dt>${key}</dt><dd>${String(value)}</dd></div>`)}</dl>`}
    ${found.value?.rebuild && html`<p>Rebuilding: ${Math.round(Number(found.value.rebuild.share) * 100)} % <progress value=${Number(found.value.rebuild.share)} aria-label="Rebuild"></progress></p>`}
    ${statements.length > 0 && html`<h3>Slow statements</h3><table class="plain-table"><tbody>${statements.slice(0, 30).map((/** @type {any} */ one, /** @type {number} */ index) => html`<tr key=${index}><td>${duration(Number(one.milliseconds))}</td><td>${grouped(Number(one.documents))} documents, ${grouped(Number(one.rows))} rows</td><td><code>${one.statement}</code></td><td class="quiet">${one.code ?? ""} ${one.credential}</td></tr>`)}</tbody></table>`}</section>`;
}

/** @param {{database: string}} props */
function Requests({ database }) {
  const path = `/admin/query-service/databases/${encodeURIComponent(database)}/requests`;
  const found = useLoaded(() => call("GET", path, { quiet: true }), [database]);
  useRepeated(found.again, 2000, []);
  const cancel = async (/** @type {any} */ one) => { try { await call("DELETE", `${path}/${one.id}`); note("It ends at its next check"); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); } };
  const all = found.value?.requests ?? [];
  return html`<section class="card" aria-label="Running statements"><h2>Running statements</h2><${Problem} error=${found.error} retry=${found.again} />
    ${all.length === 0 ? html`<p class="quiet">None.</p>` : html`<table class="plain-table"><tbody>${all.map((/** @type {any} */ one) => html`<tr key=${one.id}><td>${duration(Number(one.milliseconds))}</td><td><code>${one.statement}</code></td><td class="quiet">${one.credential}</td>
      <td><button type="button" disabled=${one.isEnding} onClick=${() => cancel(one)}>Cancel</button></td></tr>`)}</tbody></table>`}</section>`;
}

function Audit() {
  const [where, setWhere] = useState("");
  const [typed, setTyped] = useState("");
  const found = useLoaded(() => call("GET", `/admin/auth/audit?limit=50${where ? `&where=${encodeURIComponent(where)}` : ""}`, { quiet: true }), [where]);
  return html`<section class="card" aria-label="Audit"><header><h2>Audit</h2></header>
    <form class="bar" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); setWhere(typed); found.again(); }}><label class="grow"><span class="hidden">Condition</span><input class="code" placeholder="result = 'refused'" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label><button type="submit">Show</button></form>
    <${Problem} error=${found.error} retry=${found.again} />
    ${found.value?.entries.length === 0 ? html`<${Empty} title="No entries" />` : html`<div class="scroll short-scroll"><table class="plain-table"><thead><tr><th scope="col">Time</th><th scope="col">Action</th><th scope="col">Result</th><th scope="col">Who</th><th scope="col">From</th></tr></thead><tbody>
      ${(found.value?.entries ?? []).map((/** @type {any} */ one) => html`<tr key=${one._id}><td>${timeOf(one)}</td><td>${one.action}${one.path ? html` <span class="quiet">${one.path}</span>` : ""}</td><td><span class=${`badge ${one.result}`}>${one.result}</span> ${one.code ?? ""}</td><td>${one.user ?? ""}</td><td class="quiet">${one.address ?? ""}</td></tr>`)}</tbody></table></div>`}</section>`;
}

/** @param {any} entry */
function timeOf(entry) {
  const at = typeof entry.time === "string" ? Date.parse(entry.time) : Number(entry.milliseconds ?? NaN);
  return Number.isNaN(at) ? "" : html`<${Time} at=${at} />`;
}
