// @ts-check
/** Sessions of peers: who is connected, how far behind, what waits; a picture of it; ending and revoking. */

import { html, useState } from "../vendor/preact.js";
import { call } from "../api.js";
import { bytes, counted, grouped, shortened } from "../format.js";
import { note } from "../store.js";
import { Dialog, Empty, Problem, Time, useLoaded, useRepeated } from "../parts/basics.js";
import { Presence } from "../parts/presence.js";
import { Table } from "../parts/table.js";

/** The state of a session in a word. @param {any} one */
export function stateOf(one) {
  if (Number(one.catchingUp) > 0) return "catching up";
  return Number(one.lag) > 4096 ? "behind" : "live";
}

/** @param {{database: string}} props */
export function Sync({ database }) {
  const path = `/admin/replicator/databases/${encodeURIComponent(database)}`;
  const found = useLoaded(async () => {
    try {
      return (await call("GET", `${path}/sessions`, { quiet: true })).sessions;
    } catch (error) {
      // The replicator opens a database with its first peer.
      if (/** @type {any} */ (error).status === 404) return [];
      throw error;
    }
  }, [database]);
  useRepeated(found.again, 2000, []);
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const sessions = found.value ?? [];
  const columns = [
    { key: "user", title: "User", cell: (/** @type {any} */ one) => one.userID },
    { key: "peer", title: "Peer", cell: (/** @type {any} */ one) => one.peerKey ? shortened(one.peerKey, 18) : "–" },
    { key: "since", title: "Since", width: "100px", cell: (/** @type {any} */ one) => html`<${Time} at=${Number(one.sinceMilliseconds)} />` },
    { key: "state", title: "State", width: "110px", cell: (/** @type {any} */ one) => html`<span class=${`badge state-${stateOf(one).replace(" ", "-")}`}>${stateOf(one)}</span>` },
    { key: "queries", title: "Queries", width: "80px", right: true, cell: (/** @type {any} */ one) => grouped(Number(one.queries)) },
    { key: "lag", title: "Lag", width: "80px", right: true, cell: (/** @type {any} */ one) => grouped(Number(one.lag)) },
    { key: "waiting", title: "Waiting", width: "90px", right: true, cell: (/** @type {any} */ one) => bytes(Number(one.unsentBytes)) },
    { key: "end", title: "", width: "130px", cell: (/** @type {any} */ one) => html`<button type="button" onClick=${() => end(one)}>Disconnect</button>` },
  ];
  const end = async (/** @type {any} */ one) => {
    try {
      await call("DELETE", `${path}/sessions/${encodeURIComponent(one.session ?? one.number)}`);
      note(`The session of ${one.userID} was ended; the peer may come back`);
      found.again();
    } catch (error) { note(`Not ended: ${/** @type {Error} */ (error).message}`); }
  };
  return html`<div class="page sync">
    <div class="bar"><h1>Sync</h1><span class="count" role="status">${counted(sessions.length, "session")}</span><span class="live">live</span></div>
    <${Problem} error=${found.error} retry=${found.again} />
    <${Presence} sessions=${sessions} choose=${setChosen} />
    ${sessions.length > 0 ? html`<${Table} label="Sessions" rows=${sessions} columns=${columns} open=${setChosen} rowKey=${(/** @type {any} */ one) => String(one.session ?? one.number)} />`
      : found.value && html`<${Empty} title="No peer is connected"><p>A peer that syncs with this database appears here at once: its user, how far behind it is, and what waits for it.</p></${Empty}>`}
    ${chosen && html`<${Session} database=${database} one=${sessions.find((/** @type {any} */ other) => other.number === chosen.number) ?? chosen} end=${() => { end(chosen); setChosen(null); }} close=${() => setChosen(null)} />`}
  </div>`;
}

/** @param {{database: string, one: any, end: () => void, close: () => void}} props */
function Session({ database, one, end, close }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const revoke = async (/** @type {string} */ kind, /** @type {string} */ value) => {
    try {
      const { id } = await call("POST", `/admin/auth/databases/${encodeURIComponent(database)}/revocations`, { body: { kind, value } });
      note(`The ${kind} is revoked`, { undo: async () => { await call("DELETE", `/admin/auth/databases/${encodeURIComponent(database)}/revocations/${encodeURIComponent(id)}`); } });
      close();
    } catch (error) { setProblem(error); }
  };
  const facts = [["User", one.userID], ["Peer key", one.peerKey ?? "none"], ["Session", one.session ?? one.number], ["Since", new Date(Number(one.sinceMilliseconds)).toLocaleString()],
    ["Queries", one.queries], ["Subscriptions catching up", one.catchingUp], ["Taken up to offset", grouped(Number(one.offset))], ["Behind the log", grouped(Number(one.lag))], ["Bytes waiting", bytes(Number(one.unsentBytes))]];
  return html`<${Dialog} title=${`Session of ${one.userID}`} close=${close}>
    <dl class="facts">${facts.map(([key, value]) => html`<div key=${key}><dt>${key}</dt><dd>${String(value)}</dd></div>`)}</dl>
    <p class="quiet">While subscriptions catch up, the lag says nothing yet. A session that nothing matched may be some operations behind: that is normal.</p>
    <${Problem} error=${problem} close=${() => setProblem(null)} />
    <div class="actions"><button type="button" onClick=${end}>Disconnect</button>
      <button type="button" class="danger" onClick=${() => revoke("user", one.userID)}>Revoke the user</button>
      ${one.peerKey && html`<button type="button" class="danger" onClick=${() => revoke("peer", one.peerKey)}>Revoke the peer</button>`}</div></${Dialog}>`;
}
