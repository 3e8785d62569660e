// @ts-check
/** One glance: is everything in order, how much is here, is it syncing, and what to do first. */

import { html } from "../vendor/preact.js";
import { call, execute } from "../api.js";
import { name } from "../dql.js";
import { ago, bytes, grouped } from "../format.js";
import { address } from "../route.js";
import { collections } from "../schema.js";
import { session, useShared } from "../store.js";
import { copy, Problem, useLoaded, useRepeated } from "../parts/basics.js";
import { lookAround, Verdict } from "../parts/warnings.js";

/** @param {{database: string}} props */
export function Overview({ database }) {
  const who = useShared(session);
  const seen = useLoaded(() => lookAround(who?.admin ?? false), [who?.admin]);
  const facts = useLoaded(async (signal) => {
    const all = await collections(database);
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
  const latest = useLoaded(async () => {
    if (!who?.admin || !replicated.value?.head) return null;
    const path = `/admin/replicator/databases/${encodeURIComponent(database)}/log?after=${Math.max(0, Number(replicated.value.head) - 1)}&limit=1`;
    return (await call("GET", path, { quiet: true })).operations[0] ?? null;
  }, [replicated.value?.head]);
  useRepeated(() => { seen.again(); replicated.again(); }, 5000, [who?.admin]);
  useRepeated(() => facts.again(), 10_000, []);
  const tile = (/** @type {string} */ title, /** @type {any} */ value, /** @type {any} */ about = null, /** @type {string | null} */ to = null) => html`
    <a class="tile" href=${to ?? undefined}><span class="quiet">${title}</span><b>${value}</b>${about && html`<span class="quiet">${about}</span>`}</a>`;
  const sessions = replicated.value?.sessions;
  return html`<div class="page overview">
    <h1>${database}</h1>
    <${Verdict} seen=${seen.value} error=${seen.error} database=${database} />
    <${Problem} error=${facts.error ?? replicated.error} retry=${() => { facts.again(); replicated.again(); }} />
    <div class="tiles">
      ${tile("Documents", facts.value ? `${grouped(facts.value.documents)}${facts.value.isWhole ? "" : " +"}` : "…", facts.value?.size ? bytes(facts.value.size) : null, address(database, "data"))}
      ${tile("Collections", facts.value ? grouped(facts.value.collections) : "…", null, address(database, "data"))}
      ${replicated.value && tile("Peers connected", grouped(Number(sessions ?? 0)), Number(sessions ?? 0) === 0 ? "none at the moment" : "syncing", address(database, "sync"))}
      ${replicated.value && tile("Operations in the log", grouped(Number(replicated.value.head)), latest.value ? `the last ${ago(Number(latest.value.milliseconds))}, ${bytes(Number(latest.value.bytes))}` : null, address(database, "live"))}
      ${replicated.value?.lag !== undefined && replicated.value?.lag !== null && tile("Fold behind the log", grouped(Number(replicated.value.lag)), Number(replicated.value.lag) === 0 ? "up to date" : "operations", address(database, "operations"))}
    </div>
    <${FirstSteps} database=${database} />
  </div>`;
}

/** Three commands with this server's address. @param {{database: string}} props */
function FirstSteps({ database }) {
  const target = `--url ${location.origin} --database ${database} --token-file TOKEN-FILE`;
  const commands = [
    ["Write a document", `mimeo dql ${target} "INSERT INTO cars DOCUMENTS ({'_id': 'fiat', 'seats': 4})"`],
    ["Ask", `mimeo dql ${target} --format table "SELECT * FROM cars"`],
    ["Be a peer that syncs", `mimeo peer --store ./peer-a ${target} --subscribe "SELECT * FROM cars"`],
  ];
  return html`<section class="card" aria-label="First steps"><h2>Three commands to try</h2>
    ${commands.map(([title, command]) => html`<div class="command" key=${title}><p>${title}</p><pre tabIndex="0">${command}</pre><button type="button" aria-label=${`Copy: ${title}`} onClick=${() => copy(command)}>Copy</button></div>`)}
    <p class="quiet">TOKEN-FILE is the path that the server has printed as <code>token-file:</code> at its start. The page <a href=${address(database, "query")}>Query</a> does the same here.</p></section>`;
}
