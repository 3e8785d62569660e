// @ts-check
/** Every call of the server, from its own description, and each as a command. */

import { html, useMemo, useState } from "../vendor/preact.js";
import { call, curl } from "../api.js";
import { print } from "../exact.js";
import { copy, Looking, Problem, useLoaded } from "../parts/basics.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

/** An example of a schema. @param {any} schema @param {any} whole @param {number} depth @returns {any} */
function example(schema, whole, depth = 0) {
  if (!schema || depth > 5) return null;
  if (schema.$ref) return example(whole.components?.schemas?.[schema.$ref.split("/").pop()], whole, depth + 1);
  if (schema.anyOf) return example(schema.anyOf[0], whole, depth + 1);
  if (schema.enum) return schema.enum[0];
  switch (schema.type) {
    case "object": return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([key, one]) => [key, example(one, whole, depth + 1)]));
    case "array": return [example(schema.items, whole, depth + 1)];
    case "integer": case "number": return schema.minimum ?? 0;
    case "boolean": return true;
    case "string": return "…";
    default: return null;
  }
}

/** @param {{database: string | null}} props */
export function API({ database }) {
  const found = useLoaded(() => call("GET", "/api/v5/openapi.json", { quiet: true }), []);
  const [filter, setFilter] = useState("");
  const routes = useMemo(() => Object.entries(found.value?.paths ?? {}).flatMap(([path, operations]) => METHODS.filter((method) => /** @type {any} */ (operations)[method])
    .map((method) => ({ path, method: method.toUpperCase(), ...(/** @type {any} */ (operations)[method]) }))), [found.value]);
  const shown = routes.filter((one) => `${one.method} ${one.path} ${one.summary}`.toLowerCase().includes(filter.toLowerCase()));
  const groups = Map.groupBy ? [...Map.groupBy(shown, (one) => one.tags?.[0] ?? "Other")] : [["All", shown]];
  return html`<div class="page api"><div class="bar"><h1>API</h1><input class="grow" data-filter aria-label="Filter calls" placeholder=${`Filter ${routes.length} calls`} value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)} />
      <a class="button" href="/api/v5/docs" target="_blank">As one page</a><a class="button" href="/openapi.json" target="_blank">OpenAPI 3.1</a></div>
    <${Problem} error=${found.error} retry=${found.again} /><${Looking} found=${found} />
    ${found.value && shown.length === 0 && html`<p class="quiet">No call fits.</p>`}
    ${groups.map(([group, all]) => html`<section key=${group} class="card" aria-label=${group}><h2>${group}</h2>${/** @type {any[]} */ (all).map((one) => html`<${Route} key=${one.method + one.path} one=${one} whole=${found.value} database=${database} />`)}</section>`)}</div>`;
}

/** @param {{one: any, whole: any, database: string | null}} props */
function Route({ one, whole, database }) {
  const [isOpen, setOpen] = useState(false);
  const schema = one.requestBody?.content?.["application/json"]?.schema;
  const body = schema ? print(example(schema, whole)) : null;
  const command = curl({ method: one.method, path: one.path.replace("{database}", database ?? "{database}"), body });
  return html`<div class="route"><button type="button" class="fold" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}><b class=${`method ${one.method.toLowerCase()}`}>${one.method}</b> <code>${one.path}</code> <span class="quiet">${one.summary}</span></button>
    ${isOpen && html`<div class="members">${one.description && html`<p>${one.description}</p>`}
      ${one.parameters?.length > 0 && html`<dl class="facts">${one.parameters.map((/** @type {any} */ parameter) => html`<div key=${parameter.in + parameter.name}><dt>${parameter.name} <span class="quiet">${parameter.in}</span></dt><dd>${parameter.description ?? ""}</dd></div>`)}</dl>`}
      <pre tabIndex="0">${command}</pre><button type="button" onClick=${() => copy(command)}>Copy</button>
      <p class="quiet">Answers: ${Object.entries(one.responses ?? {}).map(([status, answer]) => `${status} ${/** @type {any} */ (answer).description ?? ""}`).join(" · ")}</p></div>`}</div>`;
}
