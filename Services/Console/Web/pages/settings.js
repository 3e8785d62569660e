// @ts-check
/** The settings of each service with their origins, and the level of its log. */

import { html, useState } from "../vendor/preact.js";
import { call } from "../api.js";
import { duration } from "../format.js";
import { refine, route } from "../route.js";
import { mayAdmin, note, useShared } from "../store.js";
import { Empty, Looking, Problem, useLoaded } from "../parts/basics.js";

/** The services that tell of their settings and log. */
export const SERVICES = ["auth-gateway", "replicator", "query-service", "attachment-store"];
const LEVELS = ["trace", "debug", "info", "notice", "warning", "error", "critical"];

/** A choice of a service, kept in the address. @param {{chosen: string}} props */
export function ServiceChoice({ chosen }) {
  return html`<label>Service <select value=${chosen} onChange=${(/** @type {any} */ event) => refine({ service: event.currentTarget.value })}>
    ${SERVICES.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>`;
}

export function Settings() {
  const { query } = useShared(route);
  const service = SERVICES.includes(query.service) ? query.service : SERVICES[0];
  const [filter, setFilter] = useState("");
  const found = useLoaded(() => call("GET", `/admin/${service}/settings`, { quiet: true }), [service]);
  /** @type {any[]} */
  const all = found.value?.settings ?? [];
  const wanted = filter.toLowerCase();
  const shown = all.filter((one) => (query.set !== "changed" || one.origin !== "default") && `${one.name} ${one.value ?? ""}`.toLowerCase().includes(wanted));
  return html`<div class="bar"><${ServiceChoice} chosen=${service} />
      <input class="grow" data-filter aria-label="Filter settings" placeholder="name or value" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)} />
      <label class="check"><input type="checkbox" checked=${query.set === "changed"} onChange=${(/** @type {any} */ event) => refine({ set: event.currentTarget.checked ? "changed" : "" })} />Only what was set</label></div>
    <${Level} key=${service} service=${service} />
    <${Problem} error=${found.error} retry=${found.again} />
    <section class="card" aria-label="Settings"><${Looking} found=${found} />${found.value && html`<header><h2>Settings</h2><span class="end quiet">Version ${found.value.version}</span></header>`}
      ${shown.length > 0 ? html`<table class="plain-table"><thead><tr><th scope="col">Name</th><th scope="col">Value</th><th scope="col">Comes from</th></tr></thead><tbody>
        ${shown.map((one) => html`<tr key=${one.name}><th scope="row"><code>${one.name}</code></th><td>${one.value === null ? html`<span class="quiet">not set</span>` : html`<code>${one.value}</code>`}</td>
          <td><span class=${`badge ${one.origin === "default" ? "" : "update"}`}>${one.origin}</span></td></tr>`)}</tbody></table>`
      : found.value && html`<${Empty} title="No setting fits" />`}
      <p class="quiet">A flag goes before an environment variable, which goes before the file. They are read at the start. Passwords within are left out.</p></section>`;
}

/** @param {{service: string}} props */
function Level({ service }) {
  const path = `/admin/${service}/log-level`;
  const found = useLoaded(() => call("GET", path, { quiet: true }), [service]);
  const [minutes, setMinutes] = useState("10");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const set = async (/** @type {any} */ event) => {
    const level = event.currentTarget.value;
    setProblem(null);
    try {
      await call("PUT", path, { body: { level, seconds: Math.max(1, Math.round(Number(minutes) * 60)) } });
      note(`The log of ${service} has the level ${level} for ${minutes} min`);
    } catch (error) { setProblem(error); }
    found.again();
  };
  return html`<section class="card" aria-label="Level of the log"><div class="bar"><h2>Log</h2>
      <label>Level <select value=${found.value?.level ?? ""} disabled=${!found.value || !mayAdmin("operate")} onChange=${set}>${LEVELS.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <label>for minutes <input class="tiny" type="number" min="1" max="1440" value=${minutes} onInput=${(/** @type {any} */ event) => setMinutes(event.currentTarget.value)} /></label>
      <span class="quiet">${found.value?.seconds ? `back to the setting in ${duration(Number(found.value.seconds) * 1000)}` : "as it is set"}</span></div>
    <${Problem} error=${problem ?? found.error} retry=${found.again} close=${() => setProblem(null)} /></section>`;
}
