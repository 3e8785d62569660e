// @ts-check
/** May this identity read and write this document, does its subscription get it, and why. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { call, execute, serves } from "../api.js";
import { device, useDevices } from "../author.js";
import { name } from "../dql.js";
import { parse, print } from "../exact.js";
import { refine, route } from "../route.js";
import { mayAdmin, mayOpen, useShared } from "../store.js";
import { Problem, useLoaded } from "./basics.js";

export const READING = { read: { everything: true } };
const SCOPES = [["AllPeers", "all peers"], ["BigPeerOnly", "servers only"], ["SmallPeersOnly", "small peers only"], ["LocalPeerOnly", "this device only"]];

/** The claims of an access token, not verified. @param {string} token */
export function claimsOf(token) {
  try {
    const part = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    return parse(new TextDecoder().decode(Uint8Array.from(atob(part), (byte) => byte.charCodeAt(0))));
  } catch { return null; }
}

/** @param {string} text */
function idOf(text) {
  return /^[{["]|^-?\d+$/.test(text) ? parse(text, { strict: true }) : text;
}

/** @param {{database: string, apiKeys: any[]}} props */
export function Tester({ database, apiKeys }) {
  const { query } = useShared(route);
  useDevices(database);
  const [form, setForm] = useState({
    who: query.session ? "session" : "permissions", permissions: print(READING), apiKey: "", token: "", user: "", session: query.session ?? "",
    collection: query.collection ?? "", id: query.id ?? "", subscription: query.subscription ?? "", args: "", scope: "AllPeers",
  });
  const [state, setState] = useState({ answer: /** @type {any} */ (null), error: /** @type {any} */ (null) });
  const replicator = `/admin/replicator/databases/${encodeURIComponent(database)}`;
  const sessions = useLoaded(async () => {
    try { return (await call("GET", `${replicator}/sessions`, { quiet: true })).sessions; } catch (error) {
      // The replicator opens a database with its first peer.
      if (/** @type {any} */ (error).status === 404) return [];
      throw error;
    }
  }, [database]);
  const knowsSessions = useLoaded(async () => mayAdmin("operate") && serves("/admin/replicator/databases/{database}/sessions/{session}"), []);
  /** @type {any[]} */
  const open = sessions.value ?? [];
  const chosen = form.session || String(open[0]?.session ?? "");
  const session = useLoaded(async () => form.who === "session" && chosen && knowsSessions.value ? call("GET", `${replicator}/sessions/${encodeURIComponent(chosen)}`, { quiet: true }) : null, [form.who, chosen, knowsSessions.value]);
  // A test before the session is known would say that it has ended.
  const isReading = form.who === "session" && (sessions.isLoading || knowsSessions.isLoading || session.isLoading || Boolean(chosen && knowsSessions.value && !session.value && !session.error));
  const subscriptions = session.value?.subscriptions ?? [];
  useEffect(() => {
    if (subscriptions.length > 0 && !form.subscription) choose(subscriptions[0]);
  }, [session.value]);
  const choose = (/** @type {any} */ one) => setForm((/** @type {any} */ old) => ({ ...old, subscription: one.statement, args: Object.keys(one.args).length ? print(one.args) : "", collection: old.collection || one.collection }));
  const set = (/** @type {string} */ key) => (/** @type {any} */ event) => setForm({ ...form, [key]: event.currentTarget.value });

  /** Who it is, as the call wants it. */
  const identity = () => {
    if (form.who === "apiKey") return { apiKey: form.apiKey || apiKeys[0]?.id };
    if (form.who === "account") return { account: form.user.trim() };
    if (form.who === "session") {
      if (sessions.error) throw sessions.error;
      if (!session.value) throw new Error(open.length ? "The session has ended: choose another one" : "No peer is connected");
      return { permissions: session.value.permissions, user: session.value.userID, ...(session.value.peerKey ? { peer: session.value.peerKey } : {}) };
    }
    if (form.who === "token") {
      const claims = claimsOf(form.token.trim());
      const permissions = claims?.permissions ?? claims?.grant;
      if (!permissions) throw new Error("That is no access token of this server");
      return { permissions, user: claims.sub ?? claims.userID };
    }
    return { permissions: parse(form.permissions, { strict: true }), ...(form.user ? { user: form.user } : {}) };
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const id = idOf(form.id);
      const rights = await call("POST", `/admin/auth/databases/${encodeURIComponent(database)}/explain-access`, { body: { ...identity(), collection: form.collection, id } });
      /** @type {any} */
      let sync = null;
      if (form.subscription.trim()) {
        sync = await call("POST", `/admin/query-service/databases/${encodeURIComponent(database)}/explain-subscription`, { body: {
          subscription: form.subscription, ...(form.args.trim() ? { args: parse(form.args, { strict: true }) } : {}), scope: form.scope, collection: form.collection, id,
        } });
      }
      const exists = !mayOpen(database) || (await execute(database, `SELECT _id FROM ${name(form.collection)} WHERE _id = :id`, { id }, { quiet: true })).items.length > 0;
      setState({ answer: { ...rights, sync, exists }, error: null });
      refine({ collection: form.collection, id: form.id });
    } catch (error) { setState({ answer: null, error: { code: "TEST", .../** @type {any} */ (error), message: /** @type {Error} */ (error).message } }); }
  };
  const verdict = (/** @type {boolean} */ isGood, /** @type {string} */ title, /** @type {string} */ reason) => html`<p class=${`verdict ${isGood ? "good" : "bad"}`}><b>${title}</b> ${reason}</p>`;
  const { answer } = state;
  return html`<section class="card tester" aria-label="Rights tester"><header><h2>May this identity read and write this document, and does it get it?</h2></header><form onSubmit=${submit}>
    <div class="grid-form">
      <label>Identity<select value=${form.who} onChange=${set("who")}><option value="permissions">Permissions</option>${knowsSessions.value && html`<option value="session">A connected user</option>`}<option value="account">An account</option><option value="apiKey">API key</option><option value="token">Access token</option></select></label>
      ${form.who === "apiKey" && html`<label class="wide">Key<select value=${form.apiKey} onChange=${set("apiKey")}>${apiKeys.map((one) => html`<option key=${one.id} value=${one.id}>${one.name}</option>`)}</select></label>`}
      ${form.who === "account" && html`<label class="wide">Name<input required value=${form.user} onInput=${set("user")} /></label>`}
      ${form.who === "session" && html`<label class="wide">Session<select value=${chosen} onChange=${(/** @type {any} */ event) => setForm({ ...form, session: event.currentTarget.value, subscription: "", args: "" })}>${open.length === 0 && html`<option value="">${sessions.error ? "the sessions are not known" : sessions.value ? "no peer is connected" : "Looking …"}</option>`}${open.map((one) => html`<option key=${one.session} value=${one.session}>${one.userID}${one.peerKey ? ` on ${device(one.peerKey)}` : ""}</option>`)}</select></label>`}
      ${form.who === "permissions" && html`<label class="wide">Permissions as JSON<input class="code" spellcheck=${false} value=${form.permissions} onInput=${set("permissions")} /></label><label>User<input placeholder="any" value=${form.user} onInput=${set("user")} /></label>`}
      ${form.who === "token" && html`<label class="wide">Access token<input type="password" autocomplete="off" value=${form.token} onInput=${set("token")} /></label>`}
      <label class="start">Collection<input required value=${form.collection} onInput=${set("collection")} /></label><label class="wide">Id<input class="code" required value=${form.id} onInput=${set("id")} /></label>
      ${mayAdmin("operate") && html`<label class="wide start">Subscription<input class="code" placeholder="none: only the rights" list="subscriptions" spellcheck=${false} value=${form.subscription} onInput=${set("subscription")} /></label>
      <datalist id="subscriptions">${subscriptions.map((/** @type {any} */ one) => html`<option key=${one.statement + print(one.args)} value=${one.statement} />`)}</datalist>
      <label>Arguments<input class="code" placeholder="{}" spellcheck=${false} value=${form.args} onInput=${set("args")} /></label>
      <label>Sync scope on the device<select value=${form.scope} onChange=${set("scope")}>${SCOPES.map(([key, title]) => html`<option key=${key} value=${key}>${title}</option>`)}</select></label>`}
    </div><div class="actions"><button type="submit" class="main" disabled=${isReading}>Test</button></div></form>
    <${Problem} error=${state.error ?? session.error} close=${() => setState({ answer: null, error: null })} />
    ${answer && html`<div role="status">${verdict(answer.read.allowed, answer.read.allowed ? "May read" : "May not read", answer.read.reason)}${verdict(answer.write.allowed, answer.write.allowed ? "May write" : "May not write", answer.write.reason)}
      ${answer.sync && verdict(answer.sync.belongs && answer.read.allowed, answer.sync.belongs && answer.read.allowed ? "Gets it" : "Does not get it", answer.sync.belongs && !answer.read.allowed ? "it fits the subscription, and may not be read" : answer.sync.reason)}
      ${answer.sync && html`<ul class="checklist">${answer.sync.checks.map((/** @type {any} */ one) => html`<li key=${one.check} class=${one.passes ? "good" : "bad"}><span aria-hidden="true">${one.passes ? "✓" : "✗"}</span> <b>${one.check}</b>: ${one.reason}</li>`)}</ul>`}
      ${answer.refusals.map((/** @type {string} */ text) => html`<p key=${text} class="warning">${text}</p>`)}
      ${!answer.exists && html`<p class="quiet">The document does not exist now.</p>`}</div>`}</section>`;
}
