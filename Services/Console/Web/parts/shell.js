// @ts-check
/** The frame around all pages: databases and pages at the left, state and settings above, keys for all. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { call, curl, leaveDatabase, openDatabase, refreshSession, signOut } from "../api.js";
import { address, go, route } from "../route.js";
import { applyTheme, calls, isAway, keep, mayOpen, ownRights, session, signInAgain, theme, titleOf, titles, useShared } from "../store.js";
import { copy, Dialog, Empty, Notes, Problem, Time, useLoaded, useRepeated } from "./basics.js";
import { Palette } from "./palette.js";

/** Pages by name: title, key after `g`, and whether it is for administrators only. */
export const PAGES = [
  { page: "overview", title: "Overview", key: "o", admin: false },
  { page: "data", title: "Data", key: "d", admin: false, opens: true },
  { page: "query", title: "Query", key: "q", admin: false, opens: true },
  { page: "live", title: "Live", key: "l", admin: false, opens: true },
  { page: "sync", title: "Sync", key: "s", admin: true, about: "the peers that are connected" },
  { page: "attachments", title: "Attachments", key: "t", admin: false, opens: true },
  { page: "people", title: "People", key: "e", admin: true, about: "accounts, invitations, sets of permissions and devices" },
  { page: "access", title: "Access", key: "a", admin: true, about: "who may come in, and what each may do" },
  { page: "operations", title: "Operations", key: "p", admin: true, about: "how the server does, its log and its settings" },
  { page: "account", title: "Account", key: "c", admin: false, opens: true, own: true },
  { page: "api", title: "API", key: "i", admin: false },
];

/** The user that an administrator looks as; null for one who looks with all rights. @param {string | null} database */
function seenAs(database) {
  const user = session.value?.databases.find(({ id }) => id === database)?.userID;
  return session.value?.admin && user && !user.startsWith("api-key:") && user !== "development" ? user : null;
}

/** The pages that are offered; contents of a database only to whoever may see them. @param {string | null} database */
export function offered(database) {
  return PAGES.filter((one) => !(one.own && session.value?.admin) && (!one.admin || session.value?.admin) && (!one.opens || database === null || mayOpen(database)));
}

/** The databases that may be seen. */
function useDatabases() {
  const who = useShared(session);
  return useLoaded(async () => who?.admin
    ? (await call("GET", "/admin/auth/databases", { quiet: true })).databases.map((/** @type {any} */ one) => one.id)
    : (who?.databases ?? []).map(({ id }) => id), [who?.admin, who?.databases.length]);
}

/** @param {{children: any}} props */
export function Shell({ children }) {
  const place = useShared(route);
  const who = useShared(session);
  const away = useShared(isAway);
  const chosen = useShared(theme);
  useShared(titles);
  const databases = useDatabases();
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  const [access, setAccess] = useState({ database: /** @type {string | null} */ (null), error: /** @type {any} */ (null) });

  useEffect(() => {
    if (place.database === null && databases.value?.length) {
      go(address(databases.value[0], place.page, place.rest, place.query));
    }
  }, [place.database, databases.value]);
  const enter = () => {
    const { database } = place;
    if (database === null) return;
    // Without the role for a key of the database, its contents stay closed, and the rest is there.
    if (!mayOpen(database) && who?.admin) return setAccess({ database, error: null });
    openDatabase(database).then(() => setAccess({ database, error: null }), (error) => setAccess({ database, error }));
  };
  // Where the pages' names are one line, the chosen one is in it.
  useEffect(() => { document.querySelector("nav ul a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); }, [place.page]);
  useEffect(enter, [place.database, who?.admin, who?.databases.length]);
  useRepeated(() => { if (isAway.value) refreshSession().catch(() => {}); }, 1500, []);
  useKeys(place.database, setOpen);

  const change = (/** @type {string} */ value) => { theme.set(value); keep("theme", value); applyTheme(); };
  const isReady = place.database === null ? databases.value !== null : access.database === place.database;
  return html`<div class="shell">
    <a class="skip" href="#content" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>Skip to the page</a>
    <nav aria-label="Pages">
      <a class="brand" href=${address(place.database, "overview")}><span class="logo" aria-hidden="true">M</span>Mimeo</a>
      <label class="picker"><span class="hidden">Database</span>
        <select value=${place.database ?? ""} onChange=${(/** @type {any} */ event) => go(address(event.currentTarget.value, place.page === "data" ? "data" : place.page))}>
          ${(databases.value ?? (place.database ? [place.database] : [])).map((/** @type {string} */ id) => html`<option key=${id} value=${id}>${titleOf(id)}</option>`)}
        </select></label>
      <ul>${offered(place.database).map((one) => html`<li key=${one.page}>
        <a href=${address(place.database, one.page)} aria-current=${one.page === place.page ? "page" : undefined}>${one.title}<kbd>g ${one.key}</kbd></a></li>`)}</ul>
      <p class="version">Mimeo ${who?.version}</p>
    </nav>
    <header class="top">
      <button type="button" class="search" onClick=${() => setOpen("palette")}>Go to …<kbd>Ctrl K</kbd></button>
      <span class=${`dot ${away ? "away" : "there"}`} role="status">${away ? "The server does not answer. Trying again …" : "Connected"}</span>
      <button type="button" class="calls-made" onClick=${() => setOpen("curl")}>curl</button>
      <label><span class="hidden">Theme</span><select value=${chosen} onChange=${(/** @type {any} */ event) => change(event.currentTarget.value)}>
        <option value="auto">Auto</option><option value="light">Light</option><option value="dark">Dark</option></select></label>
      <span class="who">${who?.admin ? `Administrator${who.adminRole && who.adminRole !== "own" ? `, ${who.adminRole} only` : ""}` : who?.databases.find(({ id }) => id === place.database)?.userID}</span>
      ${seenAs(place.database) && html`<span class="badge">sees what ${seenAs(place.database)} sees</span><button type="button" onClick=${() => leaveDatabase(/** @type {string} */ (place.database)).then(enter)}>End the look</button>`}
      <button type="button" onClick=${() => signOut().catch(() => refreshSession())}>Sign out</button>
    </header>
    <main id="content" tabIndex="-1">
      <${Problem} error=${databases.error} retry=${databases.again} />
      ${access.error && access.database === place.database && html`<${Problem} error=${access.error} retry=${enter} />`}
      ${isReady && !access.error && (closed(place) ?? children)}
    </main>
    ${open === "palette" && html`<${Palette} close=${() => setOpen(null)} databases=${databases.value ?? []} />`}
    ${open === "curl" && html`<${Curl} close=${() => setOpen(null)} />`}
    ${open === "keys" && html`<${Keys} close=${() => setOpen(null)} />`}
    <${Notes} /></div>`;
}

/** What is missing for a page that was asked for by its address; null if nothing is. @param {import("../route.js").Route} place */
function closed({ page, database }) {
  const found = PAGES.find((one) => one.page === page);
  const again = (/** @type {boolean} */ admin) => html`<p><button type="button" onClick=${() => signInAgain.set({ admin, database, isMore: true })}>Sign in with another credential as well</button></p>`;
  if (found?.admin && !session.value?.admin) {
    return html`<${Empty} whole title=${`${found.title} is for administrators`}><p>It shows ${found.about}, and asks for the admin credential, or one with the role <code>read</code>. Yours opens a database${database && ownRights(database) ? `, and ${ownRights(database)}` : ""}.</p>${again(true)}</${Empty}>`;
  }
  if (database === null || mayOpen(database) || (!found?.opens && session.value?.admin)) return null;
  if (!session.value?.admin && page !== "api") {
    const own = session.value?.databases ?? [];
    return html`<${Empty} whole title=${`Your credential does not open the database ${database}`}><p>${own.length > 0 ? "It opens " : "It opens no database any more."}${own.map(({ id }, index) => html`${index > 0 ? ", " : ""}<a key=${id} href=${address(id, page)}>${id}</a>`)}</p>${again(false)}</${Empty}>`;
  }
  return found?.opens ? html`<${Empty} whole title="Its contents are closed"><p>Your role does not open databases. An API key or a login of this database does: sign in with one as well.</p>${again(false)}</${Empty}>` : null;
}

/** Keys that work everywhere but in fields. @param {string | null} database @param {(open: string) => void} setOpen */
function useKeys(database, setOpen) {
  useEffect(() => {
    let isAfterG = false;
    const listener = (/** @type {KeyboardEvent} */ event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        return setOpen("palette");
      }
      const target = /** @type {HTMLElement} */ (event.target);
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest?.("input, textarea, select, dialog, .CodeMirror")) return;
      if (isAfterG) {
        isAfterG = false;
        const found = offered(database).find((one) => one.key === event.key);
        if (found) { event.preventDefault(); go(address(database, found.page)); }
      } else if (event.key === "g") {
        isAfterG = true;
        setTimeout(() => { isAfterG = false; }, 1200);
      } else if (event.key === "?") setOpen("keys");
      else if (event.key === "/") {
        const filter = /** @type {HTMLElement | null} */ (document.querySelector("[data-filter]"));
        if (filter) { event.preventDefault(); filter.focus(); }
      }
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, [database]);
}

/** The latest calls as commands. @param {{close: () => void}} props */
function Curl({ close }) {
  const all = useShared(calls);
  return html`<${Dialog} title="The latest calls" wide close=${close}>
    <p class="quiet">All that the console does is a documented call. A cookie stands in for the credential here; in a shell, put the admin credential
      into <code>$ADMIN</code>, and an access token or API key into <code>$TOKEN</code>. <a href="/api/v5/docs" target="_blank">All calls</a></p>
    <ul class="calls">${all.map((made) => html`<li key=${made.at + made.path}>
      <pre tabIndex="0">${curl(made).slice(0, 4000)}</pre>
      <p class="quiet"><${Time} at=${made.at} /> <button type="button" onClick=${() => copy(curl(made))}>Copy</button></p></li>`)}</ul></${Dialog}>`;
}

/** All keys. @param {{close: () => void}} props */
function Keys({ close }) {
  const keys = [["Ctrl K", "go to a page, collection or document"], ["/", "filter"], ["j, k, ↓, ↑", "rows of a table"], ["Enter", "open the row"], ["←, →, f", "choose a value of the row, and filter by it"],
    ["e", "edit the document"], ["Escape", "back, without loss"], ["Ctrl Enter", "run the statement"], ["Ctrl Space", "complete"], ["?", "this list"],
    ...PAGES.map(({ key, title }) => [`g ${key}`, title])];
  return html`<${Dialog} title="Keys" close=${close}><table class="keys"><tbody>${keys.map(([key, about]) => html`
    <tr key=${key}><th scope="row"><kbd>${key}</kbd></th><td>${about}</td></tr>`)}</tbody></table></${Dialog}>`;
}
