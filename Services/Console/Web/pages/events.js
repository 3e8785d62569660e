// @ts-check
/** What happens: the latest lines of each service's log as they come, and the audit. */

import { html, useState } from "../vendor/preact.js";
import { call } from "../api.js";
import { exactTime } from "../format.js";
import { refine, route } from "../route.js";
import { useShared } from "../store.js";
import { Empty, Looking, Problem, Time, useLoaded, useRepeated } from "../parts/basics.js";
import { save } from "../parts/results.js";
import { Table } from "../parts/table.js";
import { ServiceChoice, SERVICES } from "./settings.js";

const GRAVITY = ["trace", "debug", "info", "notice", "warning", "error", "critical"];

/** A line of a log in its parts; a line of another form is all text. @param {string} line @param {number} index */
export function parts(line, index) {
  try {
    if (line.startsWith("{")) {
      const { time, level, message, ...rest } = JSON.parse(line);
      const about = Object.entries(rest).map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(" ");
      return { index, at: Date.parse(time), level: String(level ?? "").toLowerCase(), text: String(message ?? line), about };
    }
  } catch { /* It is text. */ }
  const found = /^(\S+) (\w+) \S+?:( .*)? \[\w+\] (.*)$/s.exec(line);
  if (!found || Number.isNaN(Date.parse(found[1]))) return { index, at: NaN, level: "", text: line, about: "" };
  return { index, at: Date.parse(found[1]), level: found[2], text: found[4], about: (found[3] ?? "").trim() };
}

export function Events() {
  const { query } = useShared(route);
  const service = SERVICES.includes(query.service) ? query.service : SERVICES[1];
  const [filter, setFilter] = useState("");
  const [isPaused, setPaused] = useState(false);
  const least = GRAVITY.indexOf(query.level ?? "trace");
  const found = useLoaded(async () => (await call("GET", `/admin/${service}/log-lines`, { quiet: true })).lines.map(parts).reverse(), [service]);
  useRepeated(() => { if (!isPaused) found.again(); }, 2000, [isPaused, service]);
  /** @type {any[]} */
  const shown = (found.value ?? []).filter((/** @type {any} */ one) => (one.level === "" || GRAVITY.indexOf(one.level) >= least) && `${one.text} ${one.about}`.toLowerCase().includes(filter.toLowerCase()));
  const columns = [
    { key: "time", title: "Time", width: "130px", cell: (/** @type {any} */ one) => Number.isNaN(one.at) ? "" : html`<time title=${exactTime(one.at)}>${exactTime(one.at).slice(11, 23)}</time>` },
    { key: "level", title: "Level", width: "90px", cell: (/** @type {any} */ one) => html`<span class=${`badge level-${one.level}`}>${one.level}</span>` },
    { key: "text", title: "What", width: "minmax(200px, 1fr)", cell: (/** @type {any} */ one) => html`<span title=${one.text}>${one.text}</span>` },
    { key: "about", title: "About", width: "minmax(200px, 2fr)", cell: (/** @type {any} */ one) => html`<code title=${one.about}>${one.about}</code>` },
  ];
  return html`<div class="bar"><${ServiceChoice} chosen=${service} />
      <label>From level <select value=${GRAVITY[Math.max(0, least)]} onChange=${(/** @type {any} */ event) => refine({ level: event.currentTarget.value })}>${GRAVITY.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <input class="grow" data-filter aria-label="Filter lines" placeholder="text, session, peer, code" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)} />
      <button type="button" onClick=${() => setPaused(!isPaused)}>${isPaused ? "Go on" : "Pause"}</button>
      <button type="button" onClick=${() => save(`${service}.log`, shown.map((one) => `${Number.isNaN(one.at) ? "" : exactTime(one.at)} ${one.level} ${one.text} ${one.about}\n`), "text/plain")}>Save</button></div>
    <${Problem} error=${found.error} retry=${found.again} /><${Looking} found=${found} />
    ${shown.length > 0 ? html`<${Table} label="Lines of the log" rows=${shown} columns=${columns} rowKey=${(/** @type {any} */ one) => String(one.index)} />`
      : found.value && html`<${Empty} title=${filter || least > 0 ? "No line of the latest ones fits" : "No lines yet"}><p>The process keeps its last 500 lines here. The level of the log is on Settings.</p></${Empty}>`}
    <${Audit} />`;
}

function Audit() {
  const [where, setWhere] = useState("");
  const [typed, setTyped] = useState("");
  const found = useLoaded(() => call("GET", `/admin/auth/audit?limit=50${where ? `&where=${encodeURIComponent(where)}` : ""}`, { quiet: true }), [where]);
  return html`<section class="card" aria-label="Audit"><header><h2>Audit</h2><span class="end quiet">logins, certificates, and what administrators have changed</span></header>
    <form class="bar" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); setWhere(typed); found.again(); }}><label class="grow"><span class="hidden">Condition</span><input class="code" placeholder="result = 'refused'" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label><button type="submit">Show</button></form>
    <${Problem} error=${found.error} retry=${found.again} /><${Looking} found=${found} />
    ${found.value?.entries.length === 0 ? html`<${Empty} title="No entries" />` : found.value && html`<div class="scroll short-scroll" tabIndex="0" aria-label="Entries of the audit" role="group"><table class="plain-table"><thead><tr><th scope="col">Time</th><th scope="col">Action</th><th scope="col">Result</th><th scope="col">Who</th><th scope="col">From</th></tr></thead><tbody>
      ${(found.value?.entries ?? []).map((/** @type {any} */ one) => html`<tr key=${one._id}><td>${timeOf(one)}</td><td>${one.action}${one.path ? html` <span class="quiet">${one.path}</span>` : ""}</td><td><span class=${`badge ${one.result}`}>${one.result}</span> ${one.code ?? ""}</td><td>${one.user ?? ""}</td><td class="quiet">${one.address ?? ""}</td></tr>`)}</tbody></table></div>`}</section>`;
}

/** @param {any} entry */
function timeOf(entry) {
  const at = Number(entry.at ?? NaN);
  return Number.isNaN(at) ? "" : html`<${Time} at=${at} />`;
}
