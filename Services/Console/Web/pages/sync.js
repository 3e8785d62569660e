// @ts-check
/** Peers: who is connected, how far behind, what waits, what each subscribes to; a picture of it; ending and revoking. */

import { html, useState } from "../vendor/preact.js";
import { call, serves } from "../api.js";
import { print } from "../exact.js";
import { bytes, counted, exactTime, grouped } from "../format.js";
import { device, useDevices } from "../author.js";
import { address } from "../route.js";
import { grantText, mayAdmin, note } from "../store.js";
import { Dialog, Empty, Problem, progress, Refreshed, Time, useLoaded, useRepeated } from "../parts/basics.js";
import { Presence, stateOf } from "../parts/presence.js";
import { Table } from "../parts/table.js";

/** Devices that are away and shown at first. */
const AWAY = 20;

/** The presence graph, and null where the server does not tell of it. @param {string} path */
async function presence(path) {
  if (!await serves("/admin/replicator/databases/{database}/presence")) return null;
  try { return await call("GET", `${path}/presence`, { quiet: true }); } catch (error) {
    if (/** @type {any} */ (error).status === 404) return null;
    throw error;
  }
}

/** @param {{database: string}} props */
export function Sync({ database }) {
  const path = `/admin/replicator/databases/${encodeURIComponent(database)}`;
  const found = useLoaded(async () => {
    const graph = await presence(path);
    try {
      return { graph, sessions: (await call("GET", `${path}/sessions`, { quiet: true })).sessions };
    } catch (error) {
      // The replicator opens a database with its first peer.
      if (/** @type {any} */ (error).status === 404) return { graph, sessions: [] };
      throw error;
    }
  }, [database]);
  useRepeated(found.again, 2000, []);
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const [filter, setFilter] = useState("");
  /** @type {any[]} */
  const sessions = found.value?.sessions ?? [];
  /** @type {any} */
  const graph = found.value?.graph ?? null;
  const devices = useDevices(database);
  const connected = new Set([...sessions.map(({ peerKey }) => peerKey), ...(graph?.peers ?? []).map((/** @type {any} */ one) => one.peerKey)]);
  const peerOf = (/** @type {any} */ one) => graph?.peers?.find((/** @type {any} */ peer) => peer.peerKey === one.peerKey) ?? null;
  const deviceName = (/** @type {any} */ one) => devices.has(one.peerKey) ? device(one.peerKey) : peerOf(one)?.deviceName ?? device(one.peerKey);
  const shown = sessions.filter((one) => !filter || `${one.userID} ${one.peerKey ?? ""} ${one.peerKey ? deviceName(one) : ""} ${stateOf(one)}`.toLowerCase().includes(filter.toLowerCase()));
  const end = async (/** @type {any} */ one) => {
    try {
      await call("DELETE", `${path}/sessions/${encodeURIComponent(one.session ?? one.number)}`);
      note(`The session of ${one.userID} was ended; the peer may come back`);
      found.again();
    } catch (error) { note(`Not ended: ${/** @type {Error} */ (error).message}`); }
  };
  const columns = [
    { key: "user", title: "User", width: "minmax(110px, 1fr)", cell: (/** @type {any} */ one) => one.userID },
    { key: `device ${devices.size}`, title: "Device", width: "minmax(150px, 1fr)", cell: (/** @type {any} */ one) => one.peerKey ? html`<span title=${one.peerKey}>${[deviceName(one), peerOf(one)?.os].filter(Boolean).join(", ")}</span>` : "–" },
    { key: "since", title: "Since", width: "100px", cell: (/** @type {any} */ one) => html`<${Time} at=${Number(one.sinceMilliseconds)} />` },
    { key: "state", title: "State", width: "110px", cell: (/** @type {any} */ one) => html`<span class=${`badge state-${stateOf(one).replace(" ", "-")}`}>${stateOf(one)}</span>` },
    { key: "queries", title: "Queries", width: "80px", right: true, cell: (/** @type {any} */ one) => grouped(Number(one.queries)) },
    { key: "lag", title: "Lag", width: "80px", right: true, cell: (/** @type {any} */ one) => grouped(Number(one.lag)) },
    { key: "waiting", title: "Waiting", width: "90px", right: true, cell: (/** @type {any} */ one) => bytes(Number(one.unsentBytes)) },
    ...(mayAdmin("operate") ? [{ key: "end", title: html`<span class="hidden">Disconnect</span>`, width: "126px", cell: (/** @type {any} */ one) => html`<button type="button" onClick=${() => end(one)}>Disconnect</button>` }] : []),
  ];
  const now = chosen && (sessions.find((one) => one.number === chosen.session?.number) ?? chosen.session);
  return html`<div class="page sync">
    <div class="bar"><h1>Sync</h1><span class="count" role="status">${progress(found, () => counted(sessions.length, "session"))}</span><${Refreshed} found=${found} />
      ${sessions.length > 0 && html`<input class="grow" data-filter aria-label="Filter sessions" placeholder="user, device, peer key or state" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)} />`}</div>
    <${Problem} error=${found.error} retry=${found.again} />
    <${Presence} sessions=${sessions} graph=${graph} choose=${setChosen} />
    ${sessions.length > 0 ? html`<${Table} label="Sessions" rows=${shown} columns=${columns} open=${(/** @type {any} */ one) => setChosen({ session: one, peer: peerOf(one), key: one.peerKey })} rowKey=${(/** @type {any} */ one) => String(one.session ?? one.number)} />`
      : found.value && html`<${Empty} title="No peer is connected"><p>A peer that syncs with this database appears here at once: its user, how far behind it is, and what waits for it.</p>
        <p><a href=${address(database, "overview")}>Start one with a command</a></p></${Empty}>`}
    ${found.value && html`<${Away} devices=${devices} connected=${connected} />`}
    ${chosen && html`<${Session} key=${chosen.key} database=${database} one=${now} peer=${chosen.peer} end=${() => { end(now); setChosen(null); }} close=${() => setChosen(null)} />`}
  </div>`;
}

/** Devices that have been here and are not connected now, the latest first. @param {{devices: Map<string, import("../author.js").Device>, connected: Set<string>}} props */
function Away({ devices, connected }) {
  const [most, setMost] = useState(AWAY);
  const away = [...devices].filter(([key]) => !connected.has(key));
  if (away.length === 0) return null;
  return html`<section class="card away-devices" aria-label="Devices that are away"><h2>Away</h2>
    <ul>${away.slice(0, most).map(([key, { os, at }]) => html`<li key=${key} title=${key}><b>${device(key)}</b> <span class="quiet">${os}${at > 0 ? html`${os ? ", " : ""}last seen <${Time} at=${at} />` : ""}</span></li>`)}</ul>
    ${away.length > most && html`<button type="button" onClick=${() => setMost(most * 10)}>Show more</button>`}</section>`;
}

/** @param {{database: string, one: any, peer: any, end: () => void, close: () => void}} props */
function Session({ database, one, peer, end, close }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const base = `/admin/replicator/databases/${encodeURIComponent(database)}/sessions`;
  const more = useLoaded(async () => one && mayAdmin("operate") && await serves("/admin/replicator/databases/{database}/sessions/{session}")
    ? call("GET", `${base}/${encodeURIComponent(one.session ?? one.number)}`, { quiet: true }) : null, [one?.session]);
  useRepeated(() => { if (one) more.again(); }, 4000, [one?.session]);
  const revoke = async (/** @type {string} */ kind, /** @type {string} */ value) => {
    try {
      const { id } = await call("POST", `/admin/auth/databases/${encodeURIComponent(database)}/revocations`, { body: { kind, value } });
      note(`The ${kind} is revoked`, { undo: async () => { await call("DELETE", `/admin/auth/databases/${encodeURIComponent(database)}/revocations/${encodeURIComponent(id)}`); } });
      close();
    } catch (error) { setProblem(error); }
  };
  const facts = [
    ...(one ? [["User", one.userID]] : []), ["Peer key", one?.peerKey ?? peer?.peerKey ?? "none"],
    ...(one?.peerKey && !peer ? [["Device", device(one.peerKey)]] : []),
    ...(peer ? [["Device", peer.deviceName ?? "–"], ["System", [peer.os, peer.dittoSdkVersion].filter(Boolean).join(", ") || "–"], ["Connections", (peer.connections ?? []).map((/** @type {any} */ link) => link.connectionType).join(", ") || "–"]] : []),
    ...(one ? [["Session", one.session ?? one.number], ["Since", exactTime(Number(one.sinceMilliseconds))], ["Subscriptions catching up", one.catchingUp],
      ["Taken up to offset", grouped(Number(one.offset))], ["Behind the log", grouped(Number(one.lag))], ["Bytes waiting", bytes(Number(one.unsentBytes))]] : []),
    ...(more.value ? [["Rights", grantText(more.value.permissions)], ["Token ends", exactTime(Number(more.value.expiresAt) * 1000)]] : []),
  ];
  /** @type {any[]} */
  const subscriptions = more.value?.subscriptions ?? [];
  const gone = more.error?.status === 404;
  return html`<${Dialog} title=${one ? `Session of ${one.userID}` : peer?.deviceName ?? "Peer"} wide close=${close}>
    ${gone && html`<p class="warning">This session has ended.</p>`}
    <dl class="facts">${facts.map(([key, value]) => html`<div key=${key}><dt>${key}</dt><dd>${String(value)}</dd></div>`)}</dl>
    ${!one && html`<p class="quiet">It has no session here: it syncs through other peers, or at another instance.</p>`}
    <${Problem} error=${problem ?? (gone ? null : more.error)} close=${() => setProblem(null)} />
    ${more.value && html`<h3>Subscribes to</h3>${subscriptions.length === 0 ? html`<p class="quiet">Nothing: it only uploads.</p>` : html`<ul class="subscriptions">${subscriptions.map((sub) => html`<li key=${sub.statement + print(sub.args)}>
      <code>${sub.statement}</code>${Object.keys(sub.args).length > 0 && html` <span class="quiet">with <code>${print(sub.args)}</code></span>`}
      <a class="button" href=${address(database, "query", [], { q: sub.statement, args: Object.keys(sub.args).length ? print(sub.args) : "" })} onClick=${close}>Run</a>
      <a class="button" href=${address(database, "access", [], { session: one.session, subscription: sub.statement, collection: sub.collection })} onClick=${close}>Why not this document?</a></li>`)}</ul>`}
      <details><summary>Rights</summary><pre tabIndex="0">${print(more.value.permissions, 2)}</pre></details>`}
    ${one && html`<p class="quiet">While subscriptions catch up, the lag says nothing yet. A session that nothing matched may be some operations behind: that is normal.</p>`}
    ${mayAdmin("operate") && html`<div class="actions">${one && html`<button type="button" onClick=${end}>Disconnect</button>
      <button type="button" class="danger" onClick=${() => revoke("user", one.userID)}>Revoke the user</button>`}
      ${(one?.peerKey ?? peer?.peerKey) && html`<button type="button" class="danger" onClick=${() => revoke("peer", one?.peerKey ?? peer.peerKey)}>Revoke the peer</button>`}</div>`}</${Dialog}>`;
}
