// @ts-check
/** Signing in, as a page at first and as a dialog when a credential has ended: the page under it stays. */

import { html, useState } from "../vendor/preact.js";
import { call, logIn, openDatabase, signIn, signInLocally } from "../api.js";
import { address, go, route } from "../route.js";
import { keep, kept, session, signInAgain, useShared } from "../store.js";
import { Dialog, Problem } from "./basics.js";

/** A credential that the server does not take, in words for whoever has typed it. @param {string} way */
function unknown(way) {
  if (way === "account") return { code: "AUTH-0404", message: "The name or the password is wrong, or the code." };
  return { code: "AUTH-0101", message: way === "login" ? "The provider does not accept this token for this database."
    : "The server does not know this credential, or it has ended. Compare it with its source: it is taken whole, without spaces." };
}

/** @param {{done?: () => void, database?: string | null, onlyAdmin?: boolean}} props */
function Form({ done, database, onlyAdmin }) {
  const known = useShared(session);
  const last = kept("account", { database: "", provider: "" });
  const [way, setWay] = useState(last.provider && !onlyAdmin ? "account" : "credential");
  const [account, setAccount] = useState({ database: database || last.database, provider: last.provider || "staff", name: "", password: "", code: "" });
  const [needsCode, setNeedsCode] = useState(false);
  const [credential, setCredential] = useState("");
  const [login, setLogin] = useState({ database: database ?? "", provider: "development", token: "" });
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const attempt = async (/** @type {() => Promise<void>} */ body) => {
    setBusy(true);
    setError(null);
    try {
      await body();
      setCredential("");
      done?.();
    } catch (error) {
      const problem = /** @type {any} */ (error);
      if (problem.code === "AUTH-0416") setNeedsCode(true);
      const isKnown = ["AUTH-0415", "AUTH-0416", "AUTH-0408"].includes(problem.code);
      setError(problem.status === 401 && !isKnown ? unknown(way) : problem);
    }
    setBusy(false);
  };
  const logInAccount = async () => {
    const { database, provider, name, password, code } = account;
    await logIn(database.trim(), provider.trim(), JSON.stringify({ name: name.trim(), password, ...(needsCode ? { code } : {}) }));
    keep("account", { database: database.trim(), provider: provider.trim() });
  };
  const reset = () => attempt(async () => {
    const { database, provider, name } = account;
    if (!name.trim()) throw new Error("Give your name first");
    await call("POST", "/_ditto/auth/reset", { asks: false, body: { databaseID: database.trim(), provider: provider.trim(), name: name.trim() } });
    throw Object.assign(new Error("If the account has an address, a link is on its way."), { code: "Sent" });
  });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(() => way === "account" ? logInAccount() : way === "credential" ? signIn(credential.trim()) : logIn(login.database.trim(), login.provider.trim(), login.token.trim()));
  };
  const field = (/** @type {"database" | "provider" | "token"} */ key, /** @type {string} */ label, /** @type {string} */ type = "text") => html`
    <label>${label}<input type=${type} required autocomplete="off" value=${login[key]}
      onInput=${(/** @type {any} */ event) => setLogin({ ...login, [key]: event.currentTarget.value })} /></label>`;
  const part = (/** @type {"database" | "provider" | "name" | "password" | "code"} */ key, /** @type {string} */ label, /** @type {any} */ more = {}) => html`
    <label>${label}<input required spellcheck=${false} value=${account[key]} ...${more}
      onInput=${(/** @type {any} */ event) => setAccount({ ...account, [key]: event.currentTarget.value })} /></label>`;
  return html`<form class="signin" onSubmit=${submit}>
    ${known?.local && html`<div class="local">
      <button type="button" class="main" disabled=${isBusy} onClick=${() => attempt(signInLocally)}>Open this machine's server</button>
      <p class="quiet">Your user has started it, so no credential is needed from this machine.</p></div>`}
    ${!onlyAdmin && html`<div class="choice" role="radiogroup" aria-label="Way to sign in">
      ${[["account", "Name and password"], ["credential", "Credential or API key"], ["login", "Login of a user"]].map(([key, label]) => html`
        <label key=${key}><input type="radio" name="way" checked=${way === key} onChange=${() => { setWay(key); setError(null); }} />${label}</label>`)}</div>`}
    ${way === "account" ? html`${part("database", "Database")}${part("provider", "Provider")}${part("name", "Name", { autocomplete: "username" })}
      ${part("password", "Password", { type: "password", autocomplete: "current-password" })}
      ${needsCode && part("code", "Code of the second factor", { inputmode: "numeric", autocomplete: "one-time-code", autofocus: true })}
      <p class="quiet"><button type="button" class="link" onClick=${reset}>Forgot the password</button></p>`
    : way === "credential" ? html`<label>${onlyAdmin ? "Admin credential" : "Admin credential or API key"}
        <input type="password" required autocomplete="off" value=${credential} spellcheck=${false}
          onInput=${(/** @type {any} */ event) => { setCredential(event.currentTarget.value); setError(null); }} /></label>
        <p class="quiet">The admin credential is in <code>DATA/auth/admin.token</code>. An API key begins with <code>mimeo_</code>.</p>`
    : html`${field("database", "Database")}${field("provider", "Provider")}${field("token", "Token of the provider", "password")}`}
    <${Problem} error=${error} close=${() => setError(null)} />
    <button type="submit" class=${known?.local ? "" : "main"} disabled=${isBusy}>${isBusy ? "Signing in …" : "Sign in"}</button>
  </form>`;
}

/** The page for whoever is not signed in. */
export function SignIn() {
  const done = () => {
    const first = session.value?.databases[0];
    if (first && !session.value?.admin && route.value.database === null && route.value.page !== "join") go(address(first.id, "overview"));
  };
  return html`<main class="welcome"><div class="card"><h1><span class="logo" aria-hidden="true">M</span> Mimeo</h1><${Form} done=${done} /></div></main>`;
}

/** The dialog when a credential has ended in the midst. */
export function SignInAgain() {
  const wanted = useShared(signInAgain);
  if (!wanted) return null;
  const done = async () => {
    signInAgain.set(null);
    if (route.value.database) await openDatabase(route.value.database).catch(() => {});
  };
  return html`<${Dialog} title=${wanted.isMore ? "Sign in as well" : "Sign in again"} close=${() => signInAgain.set(null)}>
    <p>${wanted.isMore ? "You stay signed in with what you have." : "The session has ended, or was revoked. Nothing on the page is lost: sign in, and try again."}</p>
    <${Form} database=${wanted.database} onlyAdmin=${false} done=${done} /></${Dialog}>`;
}
