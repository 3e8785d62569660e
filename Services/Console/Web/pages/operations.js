// @ts-check
/** How the server is, in parts that have an address each. */

import { html } from "../vendor/preact.js";
import { address, route } from "../route.js";
import { useShared } from "../store.js";
import { Empty } from "../parts/basics.js";
import { Bundle } from "../parts/bundle.js";
import { Events } from "./events.js";
import { Health } from "./health.js";
import { Log } from "./log.js";
import { Settings } from "./settings.js";
import { Statements } from "./statements.js";
import { Storage } from "./storage.js";

/** @type {{part: string, title: string, of: any, needsDatabase: boolean}[]} */
const PARTS = [
  { part: "health", title: "Health", of: Health, needsDatabase: false },
  { part: "log", title: "Log", of: Log, needsDatabase: true },
  { part: "statements", title: "Statements", of: Statements, needsDatabase: true },
  { part: "storage", title: "Storage", of: Storage, needsDatabase: false },
  { part: "settings", title: "Settings", of: Settings, needsDatabase: false },
  { part: "events", title: "Events", of: Events, needsDatabase: false },
];

/** @param {{database: string | null}} props */
export function Operations({ database }) {
  const { rest } = useShared(route);
  const chosen = PARTS.find(({ part }) => part === rest[0]) ?? PARTS[0];
  return html`<div class="page operations"><div class="bar"><h1>Operations</h1>
      <nav class="tabs" aria-label="Parts of operations">${PARTS.map(({ part, title }) => html`
        <a key=${part} href=${address(database, "operations", [part])} aria-current=${part === chosen.part ? "page" : undefined}>${title}</a>`)}</nav>
      <span class="end"><${Bundle} /></span></div>
    ${chosen.needsDatabase && database === null
      ? html`<${Empty} title="No database"><p>Choose one at the left.</p></${Empty}>`
      : html`<${chosen.of} database=${database} />`}</div>`;
}
