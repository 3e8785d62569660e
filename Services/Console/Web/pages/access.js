// @ts-check
/** Who may come in and what he may do: databases, providers, API keys, revocations, keys, and a tester. */

import { html, useState } from "../vendor/preact.js";
import { call, serves } from "../api.js";
import { device, useDevices } from "../author.js";
import { parse, print } from "../exact.js";
import { address, go, route } from "../route.js";
import { collectionNames, isSystem } from "../schema.js";
import { grantText, mayAdmin, mayOpen, note } from "../store.js";
import { copy, Dialog, Time, useLoaded } from "../parts/basics.js";
import { FormDialog, Section } from "../parts/forms.js";
import { Rights } from "../parts/rights.js";
import { claimsOf, READING, Tester } from "../parts/tester.js";

/** @param {{database: string}} props */
export function Access({ database }) {
  const base = `/admin/auth/databases/${encodeURIComponent(database)}`;
  useDevices(database);
  // Whoever comes from a session that misses a document asks for the tester; else keys and providers come first.
  const [isAsked] = useState(Boolean(route.value.query.collection));
  const load = (/** @type {string} */ part) => useLoaded(() => call("GET", `${base}/${part}`, { quiet: true }), [database]);
  const [providers, apiKeys, revocations, keys] = [load("providers"), load("api-keys"), load("revocations"), load("keys")];
  const hooksPath = `/admin/query-service/databases/${encodeURIComponent(database)}/webhooks`;
  const hooks = useLoaded(async () => await serves("/admin/query-service/databases/{database}/webhooks") ? call("GET", hooksPath, { quiet: true }) : null, [database]);
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  const act = async (/** @type {() => Promise<any>} */ body, /** @type {string} */ done, /** @type {() => void} */ after) => {
    try { await body(); note(done); after(); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); }
  };
  const tester = html`<${Tester} database=${database} apiKeys=${apiKeys.value?.apiKeys ?? []} />`;
  const close = () => { setOpen(null); apiKeys.again(); revocations.again(); providers.again(); };
  return html`<div class="page access"><div class="bar"><h1>Access</h1><span class="end">${mayAdmin("own") && html`<button type="button" onClick=${() => setOpen("database")}>New database</button>`}</span></div>
    ${isAsked && tester}
    <${Section} title="API keys" found=${apiKeys} rows=${apiKeys.value?.apiKeys} empty="None. An API key opens this database for a program." columns=${[
      ["Name", (/** @type {any} */ one) => one.name], ["Rights", (/** @type {any} */ one) => grantText(one.permissions)],
      ["Made", (/** @type {any} */ one) => html`<${Time} at=${Number(one.createdAt) * 1000} />`], ["Ends", (/** @type {any} */ one) => html`<${Time} at=${Number(one.expiresAt) * 1000} />`],
      ["", (/** @type {any} */ one) => mayAdmin("own") && html`<button type="button" class="danger" onClick=${() => act(() => call("DELETE", `${base}/api-keys/${encodeURIComponent(one.id)}`), `The key ${one.name} opens nothing any more`, apiKeys.again)}>Delete</button>`],
    ]}>${mayAdmin("own") && html`<button type="button" onClick=${() => setOpen("key")}>New API key</button>`}</${Section}>
    <${Section} title="Providers" found=${providers} rows=${providers.value?.providers} empty="Only the development provider, if the database has it. A provider decides about logins." columns=${[
      ["Name", (/** @type {any} */ one) => one.name], ["Kind", (/** @type {any} */ one) => one.kind], ["", (/** @type {any} */ one) => one.summary ?? one.webhookUrl ?? ""],
      ["", (/** @type {any} */ one) => mayAdmin("own") && html`<button type="button" class="danger" onClick=${() => act(() => call("DELETE", `${base}/providers/${encodeURIComponent(one.name)}`), `The provider ${one.name} is removed`, providers.again)}>Remove</button>`],
    ]}><button type="button" onClick=${() => setOpen("try")}>Try a login</button> ${mayAdmin("own") && html`<button type="button" onClick=${() => setOpen("webhook")}>New webhook</button> <button type="button" onClick=${() => setOpen("shared")}>New shared token</button>`}</${Section}>
    <${Section} title="Revocations" found=${revocations} rows=${revocations.value?.revocations} empty="Nobody is revoked." columns=${[
      ["Kind", (/** @type {any} */ one) => one.kind], ["Whom", (/** @type {any} */ one) => one.kind === "peer" ? html`<span title=${one.value}>${device(one.value)}</span>` : one.value], ["Since", (/** @type {any} */ one) => html`<${Time} at=${Number(one.since) * 1000} />`],
      ["State", (/** @type {any} */ one) => one.liftedAt ? "lifted: earlier tokens stay invalid" : "holds"],
      ["", (/** @type {any} */ one) => !one.liftedAt && mayAdmin("operate") && html`<button type="button" onClick=${() => act(() => call("DELETE", `${base}/revocations/${encodeURIComponent(one.id)}`), "Lifted", revocations.again)}>Lift</button>`],
    ]}>${mayAdmin("operate") && html`<button type="button" onClick=${() => setOpen("revoke")}>Revoke</button>`}</${Section}>
    <${Section} title="Keys that sign tokens" found=${keys} rows=${keys.value?.keys} empty="The first login makes one." columns=${[
      ["Key", (/** @type {any} */ one) => html`<code>${one.id}</code>`], ["Made", (/** @type {any} */ one) => html`<${Time} at=${Number(one.createdAt) * 1000} />`],
      ["", (/** @type {any} */ one) => one.retiresAt ? html`retires <${Time} at=${Number(one.retiresAt) * 1000} />` : "signs now"],
    ]}>${mayAdmin("own") && html`<button type="button" onClick=${() => act(() => call("POST", `${base}/keys`, { body: {} }), "New tokens are signed with another key", keys.again)}>Sign with a new key</button>`}</${Section}>
    ${hooks.value && html`<${Section} title="Webhooks for changes" found=${hooks} rows=${hooks.value.webhooks} empty="None. A webhook gets each change of the database as a call." columns=${[
      ["To", (/** @type {any} */ one) => one.url], ["Of", (/** @type {any} */ one) => `${one.collections?.join(", ") ?? "all collections"}${one.where ? ` where ${one.where}` : ""}`],
      ["State", (/** @type {any} */ one) => html`<span class=${`badge ${one.state === "fails" ? "failed" : "ok"}`}>${one.state}</span> ${one.failure ?? ""}`], ["Behind", (/** @type {any} */ one) => String(one.lag)],
      ["", (/** @type {any} */ one) => mayAdmin("own") && html`<button type="button" class="danger" onClick=${() => act(() => call("DELETE", `${hooksPath}/${encodeURIComponent(one.id)}`), "The webhook is removed", hooks.again)}>Remove</button>`],
    ]}>${mayAdmin("own") && html`<button type="button" onClick=${() => setOpen("hook")}>New webhook for changes</button>`}</${Section}>`}
    ${!isAsked && tester}
    ${open === "hook" && html`<${NewHook} path=${hooksPath} close=${() => { setOpen(null); hooks.again(); }} />`}
    ${open === "key" && html`<${NewKey} base=${base} database=${database} close=${close} />`}
    ${open === "revoke" && html`<${Revoke} base=${base} close=${close} />`}
    ${open === "try" && html`<${TryLogin} database=${database} close=${close} />`}
    ${open === "webhook" && html`<${NewWebhook} base=${base} close=${close} />`}
    ${open === "shared" && html`<${NewShared} base=${base} database=${database} close=${close} />`}
    ${open === "database" && html`<${NewDatabase} close=${() => setOpen(null)} />`}
  </div>`;
}

/** @param {{base: string, database: string, close: () => void}} props */
function NewKey({ base, database, close }) {
  const [made, setMade] = useState(/** @type {any} */ (null));
  const names = useLoaded(async () => mayOpen(database) ? (await collectionNames(database)).filter((one) => !isSystem(one)) : [], [database]);
  const [rights, setRights] = useState(print(READING, 2));
  if (made) {
    return html`<${Dialog} title="The API key" beside=${false} close=${close}><p>It is shown now and never again.</p><pre class="secret" tabIndex="0">${made.key}</pre>
      <div class="actions"><button type="button" class="main" onClick=${() => copy(made.key)}>Copy</button><button type="button" onClick=${close}>Done</button></div></${Dialog}>`;
  }
  const send = async (/** @type {FormData} */ form) => {
    const days = Number(form.get("days"));
    setMade(await call("POST", `${base}/api-keys`, { body: {
      name: form.get("name"), permissions: parse(rights, { strict: true }), expiresAt: Math.floor(Date.now() / 1000) + days * 86_400 - 60,
    } }));
  };
  return html`<${FormDialog} title="New API key" act="Make it" close=${close} send=${send}>
    <label>Name<input name="name" required autofocus /></label><label>Days<input name="days" type="number" min="1" max="365" value="90" required /></label>
    <${Rights} text=${rights} change=${setRights} collections=${names.value ?? []} /></${FormDialog}>`;
}

/** @param {{base: string, close: () => void}} props */
function Revoke({ base, close }) {
  return html`<${FormDialog} title="Revoke" act="Revoke" close=${close} send=${async (/** @type {FormData} */ form) => {
    await call("POST", `${base}/revocations`, { body: { kind: form.get("kind"), value: form.get("value") } });
    note("Revoked in every service; open sessions end");
    close();
  }}><label>Kind<select name="kind"><option value="user">user</option><option value="peer">peer</option><option value="token">token</option></select></label>
    <label>User, peer key, or id of a token or API key<input name="value" required /></label>
    <p class="quiet">Revoking a peer does not bind its device: a user with credentials can make another key. Against a lost device, revoke the user.</p></${FormDialog}>`;
}

/** @param {{base: string, close: () => void}} props */
function NewWebhook({ base, close }) {
  return html`<${FormDialog} title="New webhook" act="Make it" close=${close} send=${async (/** @type {FormData} */ form) => {
    await call("POST", `${base}/providers`, { body: { name: form.get("name"), webhookUrl: form.get("url"), payload: form.get("payload") } });
    note("The provider is there. Try a login");
    close();
  }}><label>Name<input name="name" required /></label><label>URL<input name="url" type="url" placeholder="https://" required /></label>
    <label>What it is sent<select name="payload"><option value="both">a login in the form of Ditto 5 and of Ditto 4</option><option value="current">in the form of Ditto 5</option><option value="legacy">in the form of Ditto 4</option></select></label></${FormDialog}>`;
}

/** Bytes of a token that is drawn. */
const TOKEN_BYTES = 24;
const HOUR_SECONDS = 3600;

/** A provider whose logins all have one token and the same rights. @param {{base: string, database: string, close: () => void}} props */
function NewShared({ base, database, close }) {
  const [token, setToken] = useState(() => [...crypto.getRandomValues(new Uint8Array(TOKEN_BYTES))].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
  const names = useLoaded(async () => mayOpen(database) ? (await collectionNames(database)).filter((one) => !isSystem(one)) : [], [database]);
  const [rights, setRights] = useState(print(READING, 2));
  return html`<${FormDialog} title="New shared token" act="Make it" close=${close} send=${async (/** @type {FormData} */ form) => {
    await call("POST", `${base}/providers`, { quiet: true, body: { name: form.get("name"), anonymous: { sharedToken: token, permissions: parse(rights, { strict: true }), sessionLength: Number(form.get("hours")) * HOUR_SECONDS } } });
    note("The provider is there. Try a login");
    close();
  }}><p class="quiet">Whoever has the token may log in, and all of them are one to the server. For people there are accounts, on the page People.</p>
    <label>Name<input name="name" required autofocus placeholder="kiosk" /></label>
    <label>Token<input class="code" required minlength="16" spellcheck=${false} autocomplete="off" value=${token} onInput=${(/** @type {any} */ event) => setToken(event.currentTarget.value)} /></label>
    <p><button type="button" onClick=${() => copy(token)}>Copy the token</button> <span class="quiet">It is not shown again.</span></p>
    <label>Hours of a session<input name="hours" type="number" min="1" max="720" value="24" required /></label>
    <${Rights} text=${rights} change=${setRights} collections=${names.value ?? []} /></${FormDialog}>`;
}

/** @param {{path: string, close: () => void}} props */
function NewHook({ path, close }) {
  const [made, setMade] = useState(/** @type {any} */ (null));
  if (made) {
    return html`<${Dialog} title="The webhook's secret" beside=${false} close=${close}><p>Calls are signed with it. It is shown now and never again.</p><pre class="secret" tabIndex="0">${made.secret}</pre>
      <div class="actions"><button type="button" class="main" onClick=${() => copy(made.secret)}>Copy</button><button type="button" onClick=${close}>Done</button></div></${Dialog}>`;
  }
  return html`<${FormDialog} title="New webhook for changes" act="Make it" close=${close} send=${async (/** @type {FormData} */ form) => {
    const collections = String(form.get("collections")).split(",").map((one) => one.trim()).filter(Boolean);
    setMade(await call("POST", path, { body: {
      url: form.get("url"), values: form.get("values"), ...(collections.length ? { collections } : {}), ...(form.get("where") ? { where: form.get("where") } : {}),
    } }));
  }}><label>URL<input name="url" type="url" placeholder="https://" required /></label><label>Collections, with commas between<input name="collections" placeholder="all" /></label>
    <label>Condition in DQL<input name="where" class="code" placeholder="none" /></label>
    <label>Values<select name="values"><option value="new">new</option><option value="both">both</option><option value="none">none</option></select></label></${FormDialog}>`;
}

/** @param {{close: () => void}} props */
function NewDatabase({ close }) {
  return html`<${FormDialog} title="New database" act="Make it" close=${close} send=${async (/** @type {FormData} */ form) => {
    const body = { development: form.get("development") === "on", ...(form.get("id") ? { id: form.get("id") } : {}) };
    const { id } = await call("POST", "/admin/auth/databases", { body });
    close();
    go(address(id, "overview"));
    location.reload();
  }}><label>Id<input name="id" pattern="[A-Za-z0-9_\\-]{1,128}" placeholder="a new one" /></label>
    <label class="check"><input type="checkbox" name="development" checked />With a development login</label></${FormDialog}>`;
}

/** A login with a token, to see what the provider answers. @param {{database: string, close: () => void}} props */
function TryLogin({ database, close }) {
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  return html`<${FormDialog} title="Try a login" act="Log in" close=${close} send=${async (/** @type {FormData} */ form) => {
    setAnswer(null);
    const { accessToken, ...rest } = await call("POST", "/_ditto/auth/login", { body: { databaseID: database, provider: form.get("provider"), token: form.get("token") } });
    setAnswer({ ...rest, claims: claimsOf(accessToken) });
  }}><label>Provider<input name="provider" value="development" required /></label><label>Token<input name="token" type="password" autocomplete="off" required /></label>
    ${answer && html`<p><b>Accepted</b> as ${answer.userID} for ${String(answer.expiresIn)} s</p><pre class="scroll">${print(answer, 2)}</pre>`}</${FormDialog}>`;
}
