// @ts-check
/** One glance: is everything in order, how much is here, what has happened within the hour, and what to do first. */

import { html, useState } from "../vendor/preact.js";
import { breath, call, client, execute } from "../api.js";
import { by, useDevices } from "../author.js";
import { name } from "../dql.js";
import { ago, bytes, counted, exactTime, grouped, idText, shortened } from "../format.js";
import { print } from "../exact.js";
import { address } from "../route.js";
import { collections, isSystem } from "../schema.js";
import { keep, kept, mayAdmin, mayOpen, mayWrite, rename, session, titleOf, titles, useShared } from "../store.js";
import { copy, Dialog, Empty, Problem, progress, Time, useLoaded, useRepeated } from "../parts/basics.js";
import { lookAround, Verdict } from "../parts/warnings.js";
import { parts } from "./events.js";
import { SERVICES } from "./settings.js";

/** The time that the activity covers, and the parts that it is drawn in. */
const HOUR = 3_600_000;
const PARTS = 30;
/** Changes that are read for the activity; of more of them, these are the first. */
const READ = 20_000;
const LATEST = 8;
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

/** The changes of the last hour. @param {string} database @param {AbortSignal} signal */
async function changesOfTheHour(database, signal) {
  const until = Date.now();
  /** @type {any[]} */
  const lines = [];
  let isCut = false;
  for await (const line of client(database).changes({ since: new Date(until - HOUR).toISOString(), values: "none", signal })) {
    if (lines.length === READ) { isCut = true; break; }
    if (!isSystem(line.collection)) lines.push(line);
    await breath();
  }
  return { lines, isCut, until };
}

/** Lines of the services' logs that are errors of the last hour; null for whoever may not see them. */
async function errorsOfTheHour() {
  if (!mayAdmin("read")) return null;
  const all = await Promise.all(SERVICES.map(async (service) => {
    const { lines } = await call("GET", `/admin/${service}/log-lines`, { quiet: true });
    return lines.map(parts).map((/** @type {any} */ one) => ({ ...one, service }));
  }));
  // The services of one process have one log, of which each shows all lines.
  const found = new Map(all.flat().filter((one) => ["error", "critical"].includes(one.level) && Date.now() - one.at < HOUR).map((one) => [`${one.at} ${one.text}`, one]));
  return [...found.values()].sort((a, b) => b.at - a.at);
}

/** What has happened within the hour: writes, who made them, and errors. @param {{database: string}} props */
function Activity({ database }) {
  useDevices(database);
  const changes = useLoaded((signal) => changesOfTheHour(database, signal), [database]);
  const errors = useLoaded(() => errorsOfTheHour(), []);
  useRepeated(() => { changes.again(); errors.again(); }, 15_000, [database]);
  const { lines = [], isCut = false, until = Date.now() } = /** @type {any} */ (changes.value ?? {});
  /** @type {Map<string, number>} */
  const writers = new Map();
  for (const line of lines) writers.set(by(line), (writers.get(by(line)) ?? 0) + 1);
  const most = [...writers].sort((a, b) => b[1] - a[1]);
  const latest = lines.slice(-LATEST).reverse();
  return html`<section class="card" aria-label="The last hour"><header><h2>The last hour</h2>
      <span class="count" role="status">${progress(changes, () => `${counted(lines.length, "change")}${isCut ? " and more" : ""}`)}</span>
      <span class="end"><a class="button" href=${address(database, "live", [], { since: new Date(until - HOUR).toISOString() })}>All of them</a></span></header>
    <${Problem} error=${changes.error} retry=${changes.again} />
    ${changes.value && (lines.length === 0 ? html`<${Empty} title="Nothing was written"><p>Each write of a device or a program appears here.</p></${Empty}>` : html`
      <${Bars} lines=${lines} until=${until} />
      <div class="two"><div><h3>By whom</h3><ul class="who-wrote">${most.slice(0, 6).map(([one, count]) => html`<li key=${one}><b>${shortened(one, 40)}</b><span class="quiet">${counted(count, "change")}</span></li>`)}</ul>
        ${most.length > 6 && html`<p class="quiet">and ${most.length - 6} more</p>`}</div>
      <div><h3>Latest</h3><ul class="who-wrote">${latest.map((/** @type {any} */ line) => html`<li key=${`${line.transactionId}/${line.index}/${line.collection}/${print(line.id)}`}>
        <span class=${`badge ${line.method}`}>${line.method}</span> <a href=${address(database, "data", [line.collection, print(line.id)])}>${line.collection} / ${shortened(idText(line.id), 24)}</a>
        <span class="quiet">${by(line)}, <${Time} at=${Date.parse(line.time)} /></span></li>`)}</ul></div></div>`)}
    <${Problem} error=${errors.error} retry=${errors.again} />
    ${errors.value && html`<h3>Errors</h3>${errors.value.length === 0 ? html`<p class="quiet">The server has written none into its log.</p>` : html`<ul class="who-wrote">${errors.value.slice(0, 4).map((/** @type {any} */ one) => html`<li key=${`${one.at} ${one.text}`}>
        <span class="badge level-error">${one.level}</span> <span>${shortened(one.text, 160)}</span> <span class="quiet"><${Time} at=${one.at} /></span></li>`)}</ul>
      <p><a href=${address(database, "operations", ["events"], { level: "error" })}>${counted(errors.value.length, "line")} of the log</a></p>`}`}</section>`;
}

/** Changes over the hour as bars. @param {{lines: any[], until: number}} props */
function Bars({ lines, until }) {
  const counts = Array.from({ length: PARTS }, () => 0);
  for (const line of lines) {
    const part = Math.floor((Date.parse(line.time) - (until - HOUR)) / HOUR * PARTS);
    counts[Math.max(0, Math.min(PARTS - 1, part))] += 1;
  }
  const highest = Math.max(...counts);
  return html`<svg class="activity" viewBox=${`0 0 ${PARTS * 10} 40`} preserveAspectRatio="none" role="img" aria-label=${`Changes within the hour, at most ${counted(highest, "change")} in two minutes`}>
    ${counts.map((count, index) => html`<rect key=${index} x=${index * 10 + 1} y=${40 - count / highest * 38} width="8" height=${Math.max(count > 0 ? 1 : 0, count / highest * 38)}><title>${`${counted(count, "change")} from ${exactTime(until - HOUR + index * HOUR / PARTS).slice(11, 16)} UTC, ${ago(until - HOUR + index * HOUR / PARTS)}`}</title></rect>`)}</svg>`;
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
