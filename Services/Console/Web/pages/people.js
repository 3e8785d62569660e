// @ts-check
/** People and devices of a database: accounts, invitations, sets of permissions, devices, and what each may see. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { call, signIn } from "../api.js";
import { device, useDevices } from "../author.js";
import { parse, print } from "../exact.js";
import { address, go, refine, route } from "../route.js";
import { collectionNames, isSystem } from "../schema.js";
import { grantText, mayAdmin, mayOpen, note, useShared } from "../store.js";
import { copy, Dialog, Problem, Time, useLoaded, useRepeated } from "../parts/basics.js";
import { FormDialog, Section } from "../parts/forms.js";
import { Rights } from "../parts/rights.js";

const READING = { read: { everything: true } };
const PAGE = 50;

/** @param {any} seconds */
function moment(seconds) { return seconds ? html`<${Time} at=${Number(seconds) * 1000} />` : "–"; }

/** @param {{database: string}} props */
export function People({ database }) {
  const base = `/admin/auth/databases/${encodeURIComponent(database)}`;
  const { query } = useShared(route);
  useDevices(database);
  const [after, setAfter] = useState(/** @type {string[]} */ ([]));
  const load = (/** @type {string} */ part) => useLoaded(() => call("GET", `${base}/${part}`, { quiet: true }), [database]);
  const [providers, sets, invitations, joins, devices, limits] = [load("providers"), load("sets"), load("invitations"), load("joins"), load("devices"), load("limits")];
  const match = query.match ?? "";
  const from = after.at(-1);
  const accounts = useLoaded(() => call("GET", `${base}/accounts?limit=${PAGE}${match ? `&match=${encodeURIComponent(match)}` : ""}${from ? `&after=${encodeURIComponent(from)}` : ""}`, { quiet: true }), [database, match, from]);
  useEffect(() => setAfter([]), [match]);
  // A device that asks waits for minutes only.
  useRepeated(() => { joins.again(); }, 4000, [database]);
  const [open, setOpen] = useState(/** @type {any} */ (null));
  const names = useLoaded(async () => mayOpen(database) ? (await collectionNames(database)).filter((one) => !isSystem(one)) : [], [database]);
  const staff = (providers.value?.providers ?? []).filter((/** @type {any} */ one) => one.kind === "accounts").map((/** @type {any} */ one) => one.name);
  const again = () => [providers, sets, invitations, joins, devices, limits, accounts].forEach((one) => one.again());
  const close = () => { setOpen(null); again(); };
  const act = async (/** @type {() => Promise<any>} */ body, /** @type {string} */ done) => {
    try { await body(); note(done); again(); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); }
  };
  const isOwner = mayAdmin("own");
  const shared = { base, database, staff, sets: sets.value?.sets ?? [], collections: names.value ?? [], close };
  const begin = async () => act(() => call("POST", `${base}/providers`, { body: { name: "staff", accounts: {} } }), "People can have accounts here now: they sign in at the provider staff");
  return html`<div class="page people"><div class="bar"><h1>People</h1><span class="end">
      <a class="button" href=${`#/join/${encodeURIComponent(database)}`}>Join a device</a>
      ${isOwner && staff.length > 0 && html`<button type="button" onClick=${() => setOpen({ form: "account" })}>New account</button><button type="button" class="main" onClick=${() => setOpen({ form: "invite" })}>Invite</button>`}</span></div>
    ${providers.value && staff.length === 0 && html`<section class="card"><p>This database has no provider of accounts: nobody signs in with a name and a password.</p>${isOwner && html`<p><button type="button" class="main" onClick=${begin}>Let people have accounts</button></p>`}</section>`}
    ${(joins.value?.joins ?? []).filter((/** @type {any} */ one) => !one.answeredBy).map((/** @type {any} */ one) => html`<section class="card" key=${one.code} role="status"><p><b>${one.name}</b> asks to join with the code <b class="code">${one.code}</b>. <a class="button" href=${`#/join/${encodeURIComponent(database)}/${one.code}`}>Look</a></p></section>`)}
    <${Section} title="Accounts" found=${accounts} rows=${accounts.value?.accounts} empty=${match ? "No name or address has this part." : "None. Invite somebody."} columns=${[
      ["Name", (/** @type {any} */ one) => html`<button type="button" class="link" onClick=${() => setOpen({ account: one.name })}>${one.name}</button>`],
      ["Mail", (/** @type {any} */ one) => one.mail ?? ""], ["Rights", (/** @type {any} */ one) => one.set ? html`<span title=${grantText(one.permissions)}>${one.set}</span>` : grantText(one.permissions)],
      ["Last login", (/** @type {any} */ one) => moment(one.lastLoginAt)], ["Sessions", (/** @type {any} */ one) => String(one.sessions)],
      ["", (/** @type {any} */ one) => [one.hasPassword ? null : "no password yet", one.secondFactor ? "second factor" : null].filter(Boolean).join(", ")],
    ]}><label class="inline"><span class="hidden">A part of a name</span><input data-filter placeholder="a part of a name" value=${match} onChange=${(/** @type {any} */ event) => refine({ match: event.currentTarget.value.trim() })} /></label>
      ${accounts.value && html`<span class="quiet">${String(accounts.value.total)} ${match ? "match" : "in all"}</span>`}
      ${after.length > 0 && html`<button type="button" onClick=${() => setAfter(after.slice(0, -1))}>Back</button>`}
      ${accounts.value?.after && html`<button type="button" onClick=${() => setAfter([...after, accounts.value.after])}>Next</button>`}</${Section}>
    <${Section} title="Invitations" found=${invitations} rows=${invitations.value?.invitations} empty="None is open." columns=${[
      ["For", (/** @type {any} */ one) => one.name ?? one.mail ?? "whoever has the link"], ["Kind", (/** @type {any} */ one) => one.kind],
      ["Rights", (/** @type {any} */ one) => one.kind === "reset" ? "" : one.set ?? grantText(one.permissions)], ["Ends", (/** @type {any} */ one) => moment(one.expiresAt)],
      ["", (/** @type {any} */ one) => isOwner && html`<button type="button" class="danger" onClick=${() => act(() => call("DELETE", `${base}/invitations/${encodeURIComponent(one.id)}`), "The link works no more")}>Take back</button>`],
    ]} />
    <${Section} title="Sets of permissions" found=${sets} rows=${sets.value?.sets} empty="None. A set is what many accounts may do, by one name." columns=${[
      ["Name", (/** @type {any} */ one) => one.name], ["Rights", (/** @type {any} */ one) => grantText(one.permissions)], ["Accounts", (/** @type {any} */ one) => String(one.accounts)],
      ["", (/** @type {any} */ one) => isOwner && html`<button type="button" onClick=${() => setOpen({ form: "set", one })}>Change</button> <button type="button" class="danger" onClick=${() => act(() => call("DELETE", `${base}/sets/${encodeURIComponent(one.name)}`), `The set ${one.name} is gone`)}>Delete</button>`],
    ]}>${isOwner && html`<button type="button" onClick=${() => setOpen({ form: "set", one: null })}>New set</button>`}</${Section}>
    <${Section} title="Devices" found=${devices} rows=${devices.value?.devices} empty="None has joined with a code." columns=${[
      ["Name", (/** @type {any} */ one) => one.name], ["Acts for", (/** @type {any} */ one) => one.user], ["Rights", (/** @type {any} */ one) => grantText(one.permissions)],
      ["Peer", (/** @type {any} */ one) => one.peerKey ? html`<span title=${one.peerKey}>${device(one.peerKey)}</span>` : "–"], ["Approved by", (/** @type {any} */ one) => one.approvedBy ?? "–"], ["Last login", (/** @type {any} */ one) => moment(one.lastAt)],
      ["", (/** @type {any} */ one) => mayAdmin("operate") && html`<button type="button" class="danger" onClick=${() => act(() => call("DELETE", `${base}/devices/${encodeURIComponent(one.id)}`), `${one.name} is removed, and its sessions end`)}>Remove</button>`],
    ]} />
    <${Section} title="Limits" found=${limits} rows=${limitRows(limits.value)} empty="None: the database may use all of the server." columns=${[
      ["Of", (/** @type {any} */ one) => one.name], ["Requests a second", (/** @type {any} */ one) => bound(one.requestsPerSecond)],
      ["Bytes a second", (/** @type {any} */ one) => bound(one.bytesPerSecond)], ["Sessions", (/** @type {any} */ one) => bound(one.sessions)],
    ]}>${isOwner && limits.value && html`<button type="button" onClick=${() => setOpen({ form: "limits" })}>Set limits</button>`}</${Section}>
    ${open?.form === "limits" && html`<${EditLimits} ...${shared} limits=${limits.value} />`}
    ${open?.form === "invite" && html`<${Invite} ...${shared} />`}
    ${open?.form === "account" && html`<${NewAccount} ...${shared} />`}
    ${open?.form === "set" && html`<${EditSet} ...${shared} one=${open.one} />`}
    ${open?.account && html`<${OneAccount} ...${shared} name=${open.account} />`}</div>`;
}

/**
 * @typedef {object} Shared
 * @property {string} base
 * @property {string} database
 * @property {string[]} staff The providers of accounts.
 * @property {any[]} sets
 * @property {string[]} collections
 * @property {() => void} close
 */

/** A set, or permissions by form or JSON. @param {{sets: any[], collections: string[], set: string, rights: string, change: (set: string, rights: string) => void}} props */
function Grants({ sets, collections, set, rights, change }) {
  return html`${sets.length > 0 && html`<label>May do<select value=${set} onChange=${(/** @type {any} */ event) => change(event.currentTarget.value, rights)}>
      <option value="">what is said here</option>${sets.map((one) => html`<option key=${one.name} value=${one.name}>what ${one.name} may</option>`)}</select></label>`}
    ${!set && html`<${Rights} text=${rights} change=${(/** @type {string} */ text) => change(set, text)} collections=${collections} />`}`;
}

/** @param {any[]} sets */
function useGrants(sets, set = sets[0]?.name ?? "", grant = /** @type {any} */ (READING)) {
  const [state, setState] = useState({ set, rights: print(grant, 2) });
  const body = () => state.set ? { set: state.set } : { permissions: parse(state.rights, { strict: true }) };
  return { ...state, body, change: (/** @type {string} */ set, /** @type {string} */ rights) => setState({ set, rights }) };
}

/** A link, shown once. @param {{made: any, close: () => void}} props */
function Made({ made, close }) {
  return html`<${Dialog} title=${made.name ? `The link for ${made.name}` : "The link"} beside=${false} close=${close}>
    <p>${made.mailed ? "It was sent by mail. " : "Give it to the person. "}It works once, and is shown now and never again.</p><pre class="secret" tabIndex="0">${made.link}</pre>
    <div class="actions"><button type="button" class="main" onClick=${() => copy(made.link)}>Copy</button><button type="button" onClick=${close}>Done</button></div></${Dialog}>`;
}

/** @param {Shared} props */
function Invite({ base, staff, sets, collections, close }) {
  const grants = useGrants(sets);
  const [made, setMade] = useState(/** @type {any} */ (null));
  if (made) return html`<${Made} made=${made} close=${close} />`;
  return html`<${FormDialog} title="Invite" act="Make the link" close=${close} send=${async (/** @type {FormData} */ form) => {
    const days = Number(form.get("days"));
    setMade(await call("POST", `${base}/invitations`, { quiet: true, body: {
      provider: form.get("provider"), ...(form.get("name") ? { name: form.get("name") } : {}), ...(form.get("mail") ? { mail: form.get("mail") } : {}),
      expiresAt: Math.floor(Date.now() / 1000) + days * 86_400, ...grants.body(),
    } }));
  }}>${staff.length > 1 ? html`<label>Provider<select name="provider">${staff.map((one) => html`<option key=${one}>${one}</option>`)}</select></label>` : html`<input type="hidden" name="provider" value=${staff[0]} />`}
    <label>Name<input name="name" placeholder="the person chooses it" autofocus /></label><label>Mail<input name="mail" type="email" placeholder="none" /></label>
    <label>Days until the link ends<input name="days" type="number" min="1" max="89" value="7" required /></label>
    <${Grants} sets=${sets} collections=${collections} ...${grants} /></${FormDialog}>`;
}

/** @param {Shared} props */
function NewAccount({ base, staff, sets, collections, close }) {
  const grants = useGrants(sets);
  const [made, setMade] = useState(/** @type {any} */ (null));
  if (made) return html`<${Made} made=${made} close=${close} />`;
  return html`<${FormDialog} title="New account" act="Make it" close=${close} send=${async (/** @type {FormData} */ form) => {
    const answer = await call("POST", `${base}/accounts`, { quiet: true, body: {
      provider: form.get("provider"), name: form.get("name"), ...(form.get("mail") ? { mail: form.get("mail") } : {}),
      ...(form.get("password") ? { password: form.get("password") } : {}), ...grants.body(),
    } });
    if (answer.link === null) { note(`${answer.name} can sign in`); close(); } else setMade(answer);
  }}>${staff.length > 1 ? html`<label>Provider<select name="provider">${staff.map((one) => html`<option key=${one}>${one}</option>`)}</select></label>` : html`<input type="hidden" name="provider" value=${staff[0]} />`}
    <label>Name<input name="name" required autofocus /></label><label>Mail<input name="mail" type="email" placeholder="none" /></label>
    <label>Password<input name="password" type="password" autocomplete="new-password" placeholder="the person chooses it by a link" /></label>
    <${Grants} sets=${sets} collections=${collections} ...${grants} /></${FormDialog}>`;
}

/** @param {Shared & {one: any}} props */
function EditSet({ base, collections, close, one }) {
  const [rights, setRights] = useState(print(one?.permissions ?? READING, 2));
  return html`<${FormDialog} title=${one ? `The set ${one.name}` : "New set"} act="Keep it" close=${close} send=${async (/** @type {FormData} */ form) => {
    const name = one?.name ?? String(form.get("name"));
    await call("PUT", `${base}/sets/${encodeURIComponent(name)}`, { body: { permissions: parse(rights, { strict: true }), endSessions: form.get("end") === "on" } });
    note(`${name} is kept`);
    close();
  }}>${!one && html`<label>Name<input name="name" required pattern="[a-z0-9._\\-]{1,64}" placeholder="crew" autofocus /></label>`}
    <${Rights} text=${rights} change=${setRights} collections=${collections} />
    ${one && html`<label class="check"><input name="end" type="checkbox" />End the sessions of its accounts, so that it counts at once</label>`}</${FormDialog}>`;
}

/** Whoever has limits, each with its own. @param {any} limits */
function limitRows(limits) {
  if (!limits) return limits;
  const all = [["All users together", limits.whole], ["Each user", limits.eachUser], ...Object.entries(limits.users)];
  return all.filter(([, one]) => Object.keys(one).length > 0).map(([name, one]) => ({ name, ...one }));
}

/** @param {any} most */
const bound = (most) => most === undefined ? "–" : Number(most).toLocaleString("en");

/** @param {Shared & {limits: any}} props */
function EditLimits({ base, close, limits }) {
  const [text, setText] = useState(print(limits, 2));
  return html`<${FormDialog} title="Limits" act="Keep them" close=${close} send=${async () => {
    await call("PUT", `${base}/limits`, { body: parse(text, { strict: true }) });
    note("The limits hold from now on");
    close();
  }}><p>Numbers for <code>requestsPerSecond</code>, <code>bytesPerSecond</code> and <code>sessions</code>. One that is not there is without a bound.</p>
    <label>Limits as JSON<textarea class="code" rows="12" spellcheck=${false} value=${text} onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)} /></label></${FormDialog}>`;
}

/** @param {Shared & {name: string}} props */
function OneAccount({ base, database, sets, collections, close, name }) {
  const path = `${base}/accounts/${encodeURIComponent(name)}`;
  const found = useLoaded(async () => {
    const [account, { sessions }] = await Promise.all([call("GET", path, { quiet: true }), call("GET", `${path}/sessions`, { quiet: true })]);
    return { account, sessions };
  }, [path]);
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [changing, setChanging] = useState(false);
  const [removing, setRemoving] = useState(false);
  const act = async (/** @type {() => Promise<any>} */ body, /** @type {string} */ done) => {
    try { await body(); if (done) note(done); found.again(); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); }
  };
  if (made) return html`<${Made} made=${made} close=${close} />`;
  const { account, sessions } = found.value ?? { account: null, sessions: [] };
  const look = () => act(async () => {
    const { accessToken } = await call("POST", `${path}/view`, { quiet: true });
    await signIn(accessToken);
    go(address(database, "data"));
  }, `For ten minutes you see what ${name} sees`);
  return html`<${Dialog} title=${name} close=${close} wide><${Problem} error=${found.error} retry=${found.again} />
    ${account && html`<p>${account.set ? `What ${account.set} may: ` : ""}${grantText(account.permissions)}. ${account.mail ?? "No address"}. ${account.expiresAt ? html`Ends ${moment(account.expiresAt)}.` : ""}</p>
    ${mayAdmin("own") && html`<div class="actions"><button type="button" onClick=${() => setChanging(!changing)}>Change the rights</button><button type="button" onClick=${look}>See what ${name} sees</button>
      <button type="button" onClick=${() => act(async () => setMade(await call("POST", `${path}/reset`, { quiet: true, body: {} })), "")}>Reset the password</button>
      ${account.secondFactor && html`<button type="button" onClick=${() => act(() => call("PATCH", path, { body: { secondFactor: false } }), "The second factor has ended")}>End the second factor</button>`}
      <button type="button" class="danger" onClick=${() => setRemoving(true)}>Remove</button></div>`}
    ${removing && html`<div class="problem" role="alert"><p>${name} is signed out everywhere at once, and the devices that act for ${name} are removed. What ${name} wrote stays.</p>
      <div class="actions"><button type="button" class="danger" onClick=${() => act(async () => { await call("DELETE", path); note(`${name} is removed`); close(); }, "")}>Remove ${name}</button><button type="button" onClick=${() => setRemoving(false)}>Cancel</button></div></div>`}
    ${changing && html`<${Change} path=${path} sets=${sets} collections=${collections} account=${account} done=${() => { setChanging(false); found.again(); }} />`}
    <${Section} title="Sessions" found=${{ error: null }} rows=${sessions} empty="None." columns=${[
      ["Since", (/** @type {any} */ one) => moment(one.createdAt)], ["From", (/** @type {any} */ one) => one.address], ["On", (/** @type {any} */ one) => one.peerKey ? device(one.peerKey) : "a page or program"], ["Ends", (/** @type {any} */ one) => moment(one.expiresAt)],
      ["", (/** @type {any} */ one) => mayAdmin("operate") && html`<button type="button" class="danger" onClick=${() => act(() => call("DELETE", `${path}/sessions/${encodeURIComponent(one.id)}`), "The session has ended")}>End</button>`],
    ]} />`}</${Dialog}>`;
}

/** @param {{path: string, sets: any[], collections: string[], account: any, done: () => void}} props */
function Change({ path, sets, collections, account, done }) {
  const grants = useGrants(sets, account.set ?? "", account.permissions);
  const [ends, setEnds] = useState(false);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  return html`<form onSubmit=${async (/** @type {Event} */ event) => {
    event.preventDefault();
    try { await call("PATCH", path, { body: { ...grants.body(), endSessions: ends } }); note("They count from the next login on"); done(); } catch (error) { setProblem(error); }
  }}><${Grants} sets=${sets} collections=${collections} ...${grants} />
    <label class="check"><input type="checkbox" checked=${ends} onChange=${(/** @type {any} */ event) => setEnds(event.currentTarget.checked)} />End all sessions, so that it counts at once</label>
    <${Problem} error=${problem} close=${() => setProblem(null)} /><div class="actions"><button type="submit" class="main">Keep</button></div></form>`;
}
