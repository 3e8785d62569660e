// @ts-check
/** The console's beginning: who is signed in, and which page the address names. */

import { html, render, useErrorBoundary } from "./vendor/preact.js";
import { refreshSession } from "./api.js";
import { route } from "./route.js";
import { applyTheme, session, useShared } from "./store.js";
import { Empty, Problem } from "./parts/basics.js";
import { Shell } from "./parts/shell.js";
import { SignIn, SignInAgain } from "./parts/signin.js";
import { Overview } from "./pages/overview.js";
import { Data } from "./pages/data.js";
import { DocumentPage } from "./pages/document.js";
import { Query } from "./pages/query.js";
import { Live } from "./pages/live.js";
import { Sync } from "./pages/sync.js";
import { Access } from "./pages/access.js";
import { Operations } from "./pages/operations.js";
import { Attachments } from "./pages/attachments.js";
import { API } from "./pages/api.js";

/** @type {Record<string, any>} */
const PAGES = {
  overview: Overview, query: Query, live: Live, sync: Sync, access: Access, operations: Operations,
  attachments: Attachments, api: API,
};

function Page() {
  const place = useShared(route);
  const [error, reset] = useErrorBoundary();
  if (error) return html`<${Problem} error=${{ code: "PAGE", message: `This page has failed: ${error.message}` }} retry=${reset} />`;
  if (place.page !== "api" && place.page !== "operations" && place.database === null) {
    return html`<${Empty} whole title="No database"><p>Make one on the page Access, or sign in to one.</p></${Empty}>`;
  }
  const { database } = place;
  if (place.page === "data" && place.rest.length > 1) {
    return html`<${DocumentPage} key=${`${database}/${place.rest.join("/")}`} database=${database} collection=${place.rest[0]} id=${place.rest[1]} />`;
  }
  if (place.page === "data") return html`<${Data} key=${`${database}/${place.rest[0] ?? ""}`} database=${database} collection=${place.rest[0] ?? null} />`;
  const Found = PAGES[place.page];
  if (!Found) return html`<${Empty} whole title="There is no such page"><p>Choose one at the left.</p></${Empty}>`;
  return html`<${Found} key=${database} database=${database} />`;
}

function Console() {
  const who = useShared(session);
  if (!who) return null;
  const isIn = who.admin || who.databases.length > 0;
  return html`${isIn ? html`<${Shell}><${Page} /></${Shell}>` : html`<${SignIn} />`}<${SignInAgain} />`;
}

applyTheme();
const place = /** @type {HTMLElement} */ (document.getElementById("console"));
refreshSession().then(
  () => { place.replaceChildren(); render(html`<${Console} />`, place); },
  (error) => { place.replaceChildren(); render(html`<main class="welcome"><${Problem} error=${error} retry=${() => location.reload()} /></main>`, place); });
