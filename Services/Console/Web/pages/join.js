// @ts-check
/** A device that shows a code: whoever is signed in sees it, names it, and gives it what it may do. */

import { html, useState } from "../vendor/preact.js";
import { call } from "../api.js";
import { parse, print } from "../exact.js";
import { address, go } from "../route.js";
import { grantText, mayAdmin, session, useShared } from "../store.js";
import { Problem, Time, useLoaded } from "../parts/basics.js";
import { Rights } from "../parts/rights.js";

/** @param {{database: string | null, code: string}} props */
export function Join({ database, code }) {
  const who = useShared(session);
  const [typed, setTyped] = useState({ database: database ?? who?.databases[0]?.id ?? "", code });
  return html`<main class="welcome"><div class="card"><h1><span class="logo" aria-hidden="true">M</span> A device asks to join</h1>
    ${code && database ? html`<${Device} database=${database} code=${code} />` : html`<form class="signin" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      go(`#/join/${encodeURIComponent(typed.database.trim())}/${encodeURIComponent(typed.code.trim())}`);
    }}>
      <label>Database<input required value=${typed.database} onInput=${(/** @type {any} */ event) => setTyped({ ...typed, database: event.currentTarget.value })} /></label>
      <label>The code that the device shows<input required class="code" placeholder="BCDF-GHJK" autocomplete="off" value=${typed.code} onInput=${(/** @type {any} */ event) => setTyped({ ...typed, code: event.currentTarget.value })} /></label>
      <button type="submit" class="main">Look</button></form>`}</div></main>`;
}

/** @param {{database: string, code: string}} props */
function Device({ database, code }) {
  const own = session.value?.databases.find(({ id }) => id === database && !mayAdmin("own"));
  const admin = `/admin/auth/databases/${encodeURIComponent(database)}`;
  const path = own ? `/_ditto/auth/account/joins/${encodeURIComponent(code)}` : `${admin}/joins/${encodeURIComponent(code)}`;
  const found = useLoaded(async () => {
    if (own) return call("GET", path, { database, asks: false, quiet: true });
    const { joins } = await call("GET", `${admin}/joins`, { quiet: true });
    const plain = (/** @type {string} */ text) => text.toUpperCase().replaceAll(/[^A-Z]/g, "");
    const one = joins.find((/** @type {any} */ join) => plain(join.code) === plain(code));
    if (!one) throw Object.assign(new Error("No device shows this code. It may have ended: the device shows another one then."), { code: "AUTH-0423" });
    return one;
  }, [database, code]);
  const people = useLoaded(async () => own ? [] : (await call("GET", `${admin}/accounts?limit=1000`, { quiet: true })).accounts, [database]);
  const [name, setName] = useState(/** @type {string | null} */ (null));
  const [user, setUser] = useState("");
  const [rights, setRights] = useState(print(own ? own.permissions : { read: { everything: true } }, 2));
  const [isNarrow, setNarrow] = useState(!own);
  const [state, setState] = useState({ done: "", error: /** @type {any} */ (null) });
  const join = found.value;
  const answer = async (/** @type {boolean} */ deny) => {
    setState({ done: "", error: null });
    const title = name ?? join.name;
    const given = deny ? { deny } : { name: title, ...(user ? { user } : {}), ...(isNarrow ? { permissions: parse(rights, { strict: true }) } : {}) };
    try {
      await call("POST", path, { database: own ? database : null, asks: false, body: given });
      setState({ done: deny ? "The device was denied." : `${title} joins. It shows that in a moment.`, error: null });
    } catch (error) { setState({ done: "", error }); }
  };
  if (state.done) return html`<p role="status"><b>${state.done}</b></p><p><a href=${address(database, own ? "account" : "people")}>${own ? "Your account" : "People and devices"}</a></p>`;
  return html`<${Problem} error=${found.error} retry=${found.again} />
    ${join && html`<p>It shows <b class="code">${join.code}</b>, calls itself <b>${join.name}</b>, and asks from ${join.address}, <${Time} at=${Number(join.createdAt) * 1000} />. Approve it only if you see this code on a device of yours.</p>
    <form class="signin" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); answer(false); }}>
      <label>Name<input required value=${name ?? join.name} onInput=${(/** @type {any} */ event) => setName(event.currentTarget.value)} /></label>
      ${own ? html`<p>It acts for you and ${grantText(own.permissions)}.</p><label class="check"><input type="checkbox" checked=${isNarrow} onChange=${(/** @type {any} */ event) => setNarrow(event.currentTarget.checked)} />Give it less</label>`
        : html`<label>It acts for<select value=${user} onChange=${(/** @type {any} */ event) => { setUser(event.currentTarget.value); setNarrow(!event.currentTarget.value); }}>
          <option value="">itself</option>${(people.value ?? []).map((/** @type {any} */ one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}</select></label>
          ${user && html`<label class="check"><input type="checkbox" checked=${isNarrow} onChange=${(/** @type {any} */ event) => setNarrow(event.currentTarget.checked)} />Other permissions than ${user}</label>`}`}
      ${isNarrow && html`<${Rights} text=${rights} change=${setRights} collections=${[]} />`}
      <${Problem} error=${state.error} close=${() => setState({ done: "", error: null })} />
      <div class="actions"><button type="submit" class="main">Approve</button><button type="button" class="danger" onClick=${() => answer(true)}>Deny</button></div></form>`}`;
}
