// @ts-check
/** One glance: is everything in order, how much is here, what has happened within the hour, and what to do first. */

import { html, useState } from "../vendor/preact.js";
import { call, execute } from "../api.js";
import { name } from "../dql.js";
import { bytes, counted, grouped } from "../format.js";
import { address } from "../route.js";
import { collections, isSystem } from "../schema.js";
import { keep, kept, mayOpen, mayWrite, rename, session, titleOf, titles, useShared } from "../store.js";
import { Activity } from "../parts/activity.js";
import { copy, Dialog, Problem, useLoaded, useRepeated } from "../parts/basics.js";
import { lookAround, Verdict } from "../parts/warnings.js";

/** Databases with more documents than these have had their first steps. */
const BEGINNING = 100;

/** @param {{database: string}} props */
export function Overview({ database }) {
  const who = useShared(session);
  const seen = useLoaded(() => lookAround(who?.admin ?? false), [who?.admin]);
  const facts = useLoaded(async (signal) => {
    const all = (await collections(database)).filter((one) => one.documents !== 0 && !isSystem(one.name));
    let documents = 0;
    for (const { name: one, documents: known } of all.slice(0, 50)) {
      const answer = known ?? (await execute(database, `SELECT COUNT(*) AS n FROM ${name(one)}`, {}, { signal, quiet: true })).items[0]?.n;
      documents += Number(answer ?? 0);
    }
    if (all.length > 0 && all[0].documents !== null) documents = all.reduce((sum, one) => sum + Number(one.documents), 0);
    const size = all.length > 0 && all[0].bytes !== null ? all.reduce((sum, one) => sum + Number(one.bytes), 0) : null;
    return { collections: all.length, documents, isWhole: all.length <= 50 || all[0].documents !== null, size };
  }, [database]);
  const replicated = useLoaded(async () => who?.admin
    ? (await call("GET", "/admin/replicator/databases", { quiet: true })).databases.find((/** @type {any} */ one) => (one.id ?? one.database) === database) ?? null
    : null, [database, who?.admin]);
  useRepeated(() => { seen.again(); replicated.again(); }, 5000, [who?.admin]);
  useRepeated(() => facts.again(), 10_000, []);
  const tile = (/** @type {string} */ title, /** @type {any} */ value, /** @type {any} */ about = null, /** @type {string | null} */ to = null) => html`
    <a class="tile" href=${to ?? undefined}><span class="quiet">${title}</span><b>${value}</b>${about && html`<span class="quiet">${about}</span>`}</a>`;
  const sessions = Number(replicated.value?.sessions ?? 0);
  const lag = Number(replicated.value?.lag ?? 0);
  useShared(titles);
  const title = titleOf(database);
  const [isNaming, setNaming] = useState(false);
  return html`<div class="page overview">
    <div class="bar"><h1>${title === database ? "Overview" : title}</h1><span class="quiet">Database <code>${database}</code></span>
      <button type="button" aria-label="Copy the database's id" onClick=${() => copy(database)}>Copy</button>
      <span class="end"><button type="button" onClick=${() => setNaming(true)}>${title === database ? "Name it" : "Rename"}</button></span></div>
    <${Verdict} seen=${seen.value} error=${seen.error} database=${database} />
    <${Problem} error=${facts.error ?? replicated.error} retry=${() => { facts.again(); replicated.again(); }} />
    <div class="tiles">
      ${tile("Documents", facts.value ? `${grouped(facts.value.documents)}${facts.value.isWhole ? "" : " +"}` : facts.error ? "–" : "…", facts.value?.size ? bytes(facts.value.size) : null, address(database, "data"))}
      ${tile("Collections", facts.value ? grouped(facts.value.collections) : facts.error ? "–" : "…", null, address(database, "data"))}
      ${replicated.value && tile("Devices connected", grouped(sessions), sessions === 0 ? "none at the moment" : lag > 0 ? `${counted(lag, "change")} on the way to them` : "syncing", address(database, "sync"))}
    </div>
    ${mayOpen(database) && html`<${Activity} database=${database} />`}
    ${facts.value && facts.value.documents <= BEGINNING && mayWrite(database) && html`<${FirstSteps} database=${database} />`}
    ${isNaming && html`<${Naming} database=${database} close=${() => setNaming(false)} />`}
  </div>`;
}

/** A name for the database, by which this browser shows it. @param {{database: string, close: () => void}} props */
function Naming({ database, close }) {
  const [typed, setTyped] = useState(titleOf(database) === database ? "" : titleOf(database));
  const submit = (/** @type {Event} */ event) => { event.preventDefault(); rename(database, typed); close(); };
  return html`<${Dialog} title="Name of the database" close=${close}><form onSubmit=${submit}>
    <label>Name<input autofocus maxLength="80" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label>
    <p class="quiet">This browser shows it in place of the id. Calls and commands go on with <code>${database}</code>.</p>
    <div class="actions"><button type="submit" class="main">Save</button><button type="button" onClick=${close}>Cancel</button></div></form></${Dialog}>`;
}

/** Three commands with this server's address. @param {{database: string}} props */
function FirstSteps({ database }) {
  const [isOpen, setOpen] = useState(kept("firstSteps", true));
  const target = `--url ${location.origin} --database ${database} --token-file TOKEN-FILE`;
  const commands = [
    ["Write a document", `mimeo dql ${target} "INSERT INTO cars DOCUMENTS ({'_id': 'fiat', 'seats': 4})"`],
    ["Ask", `mimeo dql ${target} --format table "SELECT * FROM cars"`],
    ["Be a peer that syncs", `mimeo peer --store ./peer-a ${target} --subscribe "SELECT * FROM cars"`],
  ];
  const toggle = () => { keep("firstSteps", !isOpen); setOpen(!isOpen); };
  return html`<section class="card" aria-label="First steps"><header><h2>Three commands to try</h2><span class="end"><button type="button" aria-expanded=${isOpen} onClick=${toggle}>${isOpen ? "Hide" : "Show"}</button></span></header>
    ${isOpen && html`${commands.map(([title, command]) => html`<div class="command" key=${title}><p>${title}</p><pre tabIndex="0">${command}</pre><button type="button" aria-label=${`Copy: ${title}`} onClick=${() => copy(command)}>Copy</button></div>`)}
    <p class="quiet">TOKEN-FILE is the path that the server has printed as <code>token-file:</code> at its start. The page <a href=${address(database, "query")}>Query</a> does the same here.</p>`}</section>`;
}
