// @ts-check
/** The account of whoever is signed in: password, second factor, sessions, devices. */

import { html, useState } from "../vendor/preact.js";
import { call, refreshSession } from "../api.js";
import { grantText, note, session, useShared } from "../store.js";
import { copy, Dialog, Empty, Looking, Problem, Time, useLoaded } from "../parts/basics.js";
import { FormDialog, Section } from "../parts/forms.js";

const BASE = "/_ditto/auth/account";

/** @param {{database: string}} props */
export function Account({ database }) {
  useShared(session);
  const send = (/** @type {string} */ method, /** @type {string} */ path, /** @type {any} */ body = undefined) => call(method, `${BASE}${path}`, { database, asks: false, body });
  const found = useLoaded(() => call("GET", BASE, { database, asks: false, quiet: true }), [database]);
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  const own = found.value;
  const act = async (/** @type {() => Promise<any>} */ body, /** @type {string} */ done) => {
    try { await body(); note(done); found.again(); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); }
  };
  const close = () => { setOpen(null); found.again(); };
  if (found.error?.code === "AUTH-0404") return html`<${Empty} whole title="No account"><p>You are signed in by a provider that keeps its people elsewhere, or with a key.</p></${Empty}>`;
  const code = own?.secondFactor && html`<label>Code of the second factor<input name="code" inputmode="numeric" autocomplete="one-time-code" required /></label>`;
  return html`<div class="page account"><div class="bar"><h1>${own?.name ?? "Account"}</h1><span class="end">
      <button type="button" onClick=${() => setOpen("password")}>Change the password</button>
      <button type="button" onClick=${() => setOpen("factor")}>${own?.secondFactor ? "End the second factor" : "Begin a second factor"}</button></span></div>
    <${Problem} error=${found.error} retry=${found.again} />
    ${own && html`<p>You ${grantText(own.permissions)}.${own.set ? ` (${own.set})` : ""}</p>`}
    <${Looking} found=${found} />
    ${own && html`<${Section} title="Sessions" found=${{ error: null }} rows=${own.sessions} empty="None." columns=${[
      ["Since", (/** @type {any} */ one) => html`<${Time} at=${Number(one.createdAt) * 1000} />`], ["From", (/** @type {any} */ one) => one.address],
      ["On", (/** @type {any} */ one) => one.current ? "this one" : one.peerKey ? "a device" : "a page or program"],
      ["", (/** @type {any} */ one) => html`<button type="button" class="danger" onClick=${() => act(async () => { await send("DELETE", `/sessions/${encodeURIComponent(one.id)}`); if (one.current) await refreshSession(); }, "The session has ended")}>End</button>`],
    ]} />
    <${Section} title="Devices" found=${{ error: null }} rows=${own.devices} empty="None. A device that shows a code joins by it." columns=${[
      ["Name", (/** @type {any} */ one) => one.name], ["Rights", (/** @type {any} */ one) => grantText(one.permissions)],
      ["Joined", (/** @type {any} */ one) => html`<${Time} at=${Number(one.createdAt) * 1000} />`],
      ["", (/** @type {any} */ one) => html`<button type="button" class="danger" onClick=${() => act(() => send("DELETE", `/devices/${encodeURIComponent(one.id)}`), `${one.name} is removed`)}>Remove</button>`],
    ]}><a class="button" href=${`#/join/${encodeURIComponent(database)}`}>Join a device</a></${Section}>`}
    ${open === "password" && html`<${FormDialog} title="Change the password" act="Change it" close=${close} send=${async (/** @type {FormData} */ form) => {
      await send("POST", "/password", { password: form.get("password"), newPassword: form.get("new"), endSessions: form.get("end") === "on", ...(form.get("code") ? { code: form.get("code") } : {}) });
      note("The password is changed");
      close();
    }}><label>The present one<input name="password" type="password" autocomplete="current-password" required autofocus /></label>
      <label>The new one<input name="new" type="password" autocomplete="new-password" minlength="8" required /></label>${code}
      <label class="check"><input name="end" type="checkbox" checked />End all other sessions</label></${FormDialog}>`}
    ${open === "factor" && own && html`<${Factor} isOn=${own.secondFactor} send=${send} close=${close} />`}</div>`;
}

/** @param {{isOn: boolean, send: (method: string, path: string, body: any) => Promise<any>, close: () => void}} props */
function Factor({ isOn, send, close }) {
  const [made, setMade] = useState(/** @type {any} */ (null));
  const path = "/second-factor";
  if (isOn) {
    return html`<${FormDialog} title="End the second factor" act="End it" close=${close} send=${async (/** @type {FormData} */ form) => {
      await send("POST", path, { password: form.get("password"), code: form.get("code"), off: true });
      note("A password is enough again");
      close();
    }}><label>Password<input name="password" type="password" autocomplete="current-password" required /></label>
      <label>Code<input name="code" inputmode="numeric" autocomplete="one-time-code" required /></label></${FormDialog}>`;
  }
  if (!made) {
    return html`<${FormDialog} title="Begin a second factor" act="Go on" close=${close} send=${async (/** @type {FormData} */ form) => {
      const password = form.get("password");
      setMade({ ...await send("POST", path, { password }), password });
    }}><p>An application for one-time codes then goes with your password.</p><label>Password<input name="password" type="password" autocomplete="current-password" required autofocus /></label></${FormDialog}>`;
  }
  return html`<${Dialog} title="Give the secret to the application" beside=${false} close=${close}><p>Type it there, or open the address on the device.</p><pre class="secret" tabIndex="0">${made.secret}</pre>
    <p><a href=${made.uri}>Open it here</a> <button type="button" onClick=${() => copy(made.uri)}>Copy the address</button></p>
    <${Confirm} send=${(/** @type {string} */ code) => send("POST", path, { password: made.password, code })} close=${close} /></${Dialog}>`;
}

/** @param {{send: (code: string) => Promise<any>, close: () => void}} props */
function Confirm({ send, close }) {
  const [code, setCode] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  return html`<form onSubmit=${async (/** @type {Event} */ event) => {
    event.preventDefault();
    try { await send(code.replaceAll(" ", "")); note("Each login needs a code now"); close(); } catch (error) { setProblem(error); }
  }}><label>The code that it shows<input required inputmode="numeric" autocomplete="one-time-code" value=${code} onInput=${(/** @type {any} */ event) => setCode(event.currentTarget.value)} /></label>
    <${Problem} error=${problem} close=${() => setProblem(null)} /><div class="actions"><button type="submit" class="main">Confirm</button></div></form>`;
}
