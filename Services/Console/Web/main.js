// @ts-check
/** The console's beginning: who is signed in, and which page the address names. */

import { html, render, useErrorBoundary } from "./vendor/preact.js";
import { refreshSession } from "./api.js";
import { route } from "./route.js";
import { applyTheme, session, useShared } from "./store.js";
import { Empty, Problem, useLoaded } from "./parts/basics.js";
import { Shell } from "./parts/shell.js";
import { SignIn, SignInAgain } from "./parts/signin.js";
import { Overview } from "./pages/overview.js";
import { Data } from "./pages/data.js";
import { DocumentPage } from "./pages/document.js";
import { Query } from "./pages/query.js";
import { Live } from "./pages/live.js";
import { Sync } from "./pages/sync.js";
import { Attachments } from "./pages/attachments.js";

/** A page whose modules are loaded when it is first opened (decision 0126). @param {() => Promise<any>} load */
function later(load) {
  return (/** @type {any} */ props) => {
    const found = useLoaded(load, []);
    const Found = /** @type {any} */ (found.value)?.page;
    if (found.error) return html`<${Problem} error=${{ code: "NETWORK", message: "The page could not be loaded: the server is away, or has another version by now" }} retry=${() => location.reload()} />`;
    return Found ? html`<${Found} ...${props} />` : html`<p class="quiet page" role="status">Loading …</p>`;
  };
}

/** @type {Record<string, any>} */
const PAGES = {
  overview: Overview, query: Query, live: Live, sync: Sync, attachments: Attachments,
  access: later(() => import("./pages/access.js").then(({ Access }) => ({ page: Access }))),
  operations: later(() => import("./pages/operations.js").then(({ Operations }) => ({ page: Operations }))),
  people: later(() => import("./pages/people.js").then(({ People }) => ({ page: People }))),
  account: later(() => import("./pages/account.js").then(({ Account }) => ({ page: Account }))),
  api: later(() => import("./pages/api.js").then(({ API }) => ({ page: API }))),
};

/** Pages without the frame: a link works for whoever has it, and a device is approved by whoever is signed in. */
const Welcome = later(() => import("./pages/welcome.js").then(({ Welcome }) => ({ page: Welcome })));
const Join = later(() => import("./pages/join.js").then(({ Join }) => ({ page: Join })));

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
  const { page, database, rest } = useShared(route);
  if (!who) return null;
  if (database === null && page === "welcome") return html`<${Welcome} key=${rest[0]} token=${rest[0] ?? ""} />`;
  const isIn = who.admin || who.databases.length > 0;
  if (isIn && database === null && page === "join") return html`<${Join} key=${rest.join("/")} database=${rest[0] ?? null} code=${rest[1] ?? ""} /><${SignInAgain} />`;
  return html`${isIn ? html`<${Shell}><${Page} /></${Shell}>` : html`<${SignIn} />`}<${SignInAgain} />`;
}

applyTheme();
const place = /** @type {HTMLElement} */ (document.getElementById("console"));
refreshSession().then(
  () => { place.replaceChildren(); render(html`<${Console} />`, place); },
  (error) => { place.replaceChildren(); render(html`<main class="welcome"><${Problem} error=${error} retry=${() => location.reload()} /></main>`, place); });
