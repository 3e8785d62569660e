// @ts-check
/** A link of an invitation, or of a reset: its holder chooses a password, and is signed in. */

import { html, useState } from "../vendor/preact.js";
import { call, logIn } from "../api.js";
import { address, go } from "../route.js";
import { keep } from "../store.js";
import { Problem, useLoaded } from "../parts/basics.js";

/** @param {{token: string}} props */
export function Welcome({ token }) {
  const link = useLoaded(() => call("POST", "/_ditto/auth/link", { asks: false, quiet: true, body: { token } }), [token]);
  const [form, setForm] = useState({ name: "", password: "", again: "" });
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const found = link.value;
  const field = (/** @type {"name" | "password" | "again"} */ key, /** @type {string} */ label, /** @type {any} */ more) => html`<label>${label}
    <input required spellcheck=${false} value=${form[key]} ...${more} onInput=${(/** @type {any} */ event) => setForm({ ...form, [key]: event.currentTarget.value })} /></label>`;
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setProblem(null);
    if (form.password !== form.again) return setProblem({ code: "PASSWORD", message: "The two passwords differ" });
    setBusy(true);
    try {
      const name = found.name === null ? { name: form.name.trim() } : {};
      const made = await call("POST", "/_ditto/auth/link/use", { asks: false, quiet: true, body: { token, password: form.password, ...name } });
      keep("account", { database: made.databaseID, provider: made.provider });
      const { password } = form;
      setForm({ name: "", password: "", again: "" });
      // With a second factor the person signs in on the page that asks for the code.
      await logIn(made.databaseID, made.provider, JSON.stringify({ name: made.name, password })).catch(() => {});
      history.replaceState(null, "", "#/");
      go(address(made.databaseID, "overview"));
    } catch (error) { setProblem(error); }
    setBusy(false);
  };
  const title = found?.kind === "reset" ? `Choose another password${found.name ? `, ${found.name}` : ""}` : `Welcome${found?.name ? `, ${found.name}` : ""}`;
  return html`<main class="welcome"><div class="card"><h1><span class="logo" aria-hidden="true">M</span> ${found ? title : "Mimeo"}</h1>
    <${Problem} error=${link.error} />
    ${link.error?.status === 410 && html`<p>A link works once, and has an end. Ask whoever sent it for another one.</p>`}
    ${found && html`<form class="signin" onSubmit=${submit}>
      ${found.name === null ? field("name", "Your name, or your address", { autocomplete: "username" }) : html`<input type="hidden" autocomplete="username" value=${found.name} />`}
      ${field("password", "A password of at least 8 characters", { type: "password", autocomplete: "new-password", minlength: 8 })}
      ${field("again", "The same again", { type: "password", autocomplete: "new-password" })}
      <${Problem} error=${problem} close=${() => setProblem(null)} />
      <button type="submit" class="main" disabled=${isBusy}>${isBusy ? "A moment …" : found.kind === "reset" ? "Set the password" : "Join"}</button></form>`}</div></main>`;
}
