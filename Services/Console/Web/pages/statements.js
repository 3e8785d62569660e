// @ts-check
/** Running and slow statements, the projection that they read, and its indexes. */

import { html } from "../vendor/preact.js";
import { call } from "../api.js";
import { bytes, duration, grouped } from "../format.js";
import { address } from "../route.js";
import { mayAdmin, note } from "../store.js";
import { Looking, Problem, progress, Time, useLoaded, useRepeated } from "../parts/basics.js";

/** @param {{database: string}} props */
export function Statements({ database }) {
  const path = `/admin/query-service/databases/${encodeURIComponent(database)}`;
  const load = (/** @type {string} */ part) => useLoaded(() => call("GET", `${path}/${part}`, { quiet: true }), [database]);
  const [running, slow, projection, indexes] = [load("requests"), load("slow?limit=50"), load("projection"), load("indexes")];
  useRepeated(() => { running.again(); projection.again(); }, 2000, []);
  useRepeated(() => { slow.again(); indexes.again(); }, 10_000, []);
  const act = async (/** @type {() => Promise<any>} */ body, /** @type {string} */ done) => {
    try { await body(); note(done); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); }
  };
  const state = projection.value;
  /** @type {any[]} */
  const requests = running.value?.requests ?? [];
  /** @type {any[]} */
  const late = slow.value?.statements ?? [];
  return html`<section class="card" aria-label="Running statements"><h2>Running</h2><${Problem} error=${running.error} retry=${running.again} />
      ${requests.length === 0 ? html`<p class="quiet">${progress(running, () => "None at the moment.")}</p>` : html`<table class="plain-table"><thead><tr><th scope="col">For</th><th scope="col">Statement</th><th scope="col">Credential</th><th scope="col">Rows</th><th scope="col"><span class="hidden">Cancel</span></th></tr></thead><tbody>
        ${requests.map((one) => html`<tr key=${one.id}><td>${duration(Number(one.milliseconds))}</td><td><code>${one.statement}</code></td><td>${one.credential}</td><td>${grouped(Number(one.rows))}</td>
          <td>${mayAdmin("operate") && html`<button type="button" disabled=${one.isEnding} onClick=${() => act(() => call("DELETE", `${path}/requests/${one.id}`), "It ends at its next check")}>Cancel</button>`}</td></tr>`)}</tbody></table>`}</section>
    <section class="card" aria-label="Slow statements"><h2>Slow</h2><${Problem} error=${slow.error} retry=${slow.again} />
      ${late.length === 0 ? html`<p class="quiet">${progress(slow, () => "None yet took half a second. A slow statement stays here, without the values in it.")}</p>` : html`<table class="plain-table"><thead><tr><th scope="col">Time</th><th scope="col">Took</th><th scope="col">Visited</th><th scope="col">Rows</th><th scope="col">Statement</th><th scope="col"><span class="hidden">Advice</span></th></tr></thead><tbody>
        ${late.map((one, index) => html`<tr key=${index}><td><${Time} at=${Date.parse(one.time)} /></td><td>${duration(Number(one.milliseconds))}</td><td>${grouped(Number(one.documents))}</td><td>${grouped(Number(one.rows))}</td>
          <td><code>${one.statement}</code>${one.code ? html` <span class="badge failed">${one.code}</span>` : ""}</td>
          <td>${/^\s*SELECT/i.test(one.statement) && html`<a class="button" href=${address(database, "query", [], { q: `ADVISE ${one.statement}` })}>Advise</a>`}</td></tr>`)}</tbody></table>`}</section>
    <section class="card" aria-label="Projection"><header><h2>Projection</h2>${mayAdmin("operate") && html`<span class="end"><button type="button" onClick=${() => act(() => call("POST", `${path}/rebuilds`, { body: {} }), "The projection is being built again")}>Rebuild</button></span>`}</header>
      <${Problem} error=${projection.error} retry=${projection.again} /><${Looking} found=${projection} />
      ${state && html`<dl class="facts">
        <div><dt>Stored in</dt><dd>${state.storage === null ? "not open" : state.storage === "postgres" ? "PostgreSQL" : "a folder"}</dd></div>
        <div><dt>Folded up to</dt><dd>${state.offset === null ? "–" : grouped(Number(state.offset))} of ${grouped(Number(state.head))}</dd></div>
        <div><dt>Behind</dt><dd>${state.lag === null ? "–" : grouped(Number(state.lag))}</dd></div>
        <div><dt>Builds so far</dt><dd>${grouped(Number(state.generation))}</dd></div>
        <div><dt>This process</dt><dd>${state.worker ?? "–"}</dd></div></dl>
        ${state.failure && html`<p class="warning">${state.failure}</p>`}
        ${state.rebuild && html`<p>Rebuilding: ${Math.round(Number(state.rebuild.share) * 100)} % <progress value=${Number(state.rebuild.share)} aria-label="Rebuild"></progress></p>`}`}
      <h3>Indexes</h3><${Problem} error=${indexes.error} retry=${indexes.again} /><${Looking} found=${indexes} />
      ${indexes.value && html`<table class="plain-table"><thead><tr><th scope="col">Collection</th><th scope="col">Name</th><th scope="col">Fields</th><th scope="col">State</th><th scope="col">Size</th></tr></thead><tbody>
        ${indexes.value.indexes.filter((/** @type {any} */ one) => !one.collection.startsWith("__")).slice(0, 300).map((/** @type {any} */ one) => html`<tr key=${one._id}><td>${one.collection}</td><td>${one.name}</td><td><code>${one.fields.map((/** @type {any} */ field) => `${field.key.join(".")}${field.direction === "desc" ? " DESC" : ""}`).join(", ") || one.definition}</code></td>
          <td><span class=${`badge ${one.state === "ready" ? "ok" : "state-behind"}`}>${one.state}</span> ${one.kind === "primary" ? html`<span class="quiet">by id</span>` : ""}</td><td>${one.bytes === undefined ? "" : bytes(Number(one.bytes))}</td></tr>`)}</tbody></table>`}</section>`;
}
