// @ts-check
/** Whoever has written an operation, and the devices, by the names that they have given themselves. */

import { useEffect } from "./vendor/preact.js";
import { call, execute, serves } from "./api.js";
import { shortened } from "./format.js";
import { keep, kept, mayAdmin, mayRead, Shared, useShared } from "./store.js";

/** The collection in which each device tells of itself. */
const REPORTS = "__small_peer_info";
/** Time between two looks at it, and until the one for a device that is not known yet. */
const AGAIN_MS = 20_000;
const SOON_MS = 1000;

/** Devices that a browser keeps in mind of a database. */
const KEPT = 500;
const PRESENCE = "/admin/replicator/databases/{database}/presence";

/** @typedef {{name: string, os: string, at: number}} Device `at`: when it was there last, as far as this page knows. */

/** Devices by their peer keys. @type {Shared<Map<string, Device>>} */
const devices = new Shared(/** @type {Map<string, Device>} */ (new Map()));
let read = { database: "", at: 0 };
/** Keys without a name that were shown: each of them is a reason for one look before its time. @type {Set<string>} */
const unknown = new Set();
let isMissed = false;

/** What the devices tell of themselves, in their reports and while they are connected. @param {string} database */
async function told(database) {
  /** @type {[string, Device][]} */
  const all = [];
  if (mayRead(database, REPORTS)) {
    const { items } = await execute(database, `SELECT _id, device_name, os, last_update FROM ${REPORTS}`, {}, { quiet: true });
    for (const { _id, device_name: name, os, last_update: at } of items) {
      if (typeof _id === "string" && name) all.push([_id, { name: String(name), os: String(os ?? ""), at: Number(at ?? 0) }]);
    }
  }
  if (mayAdmin("read") && await serves(PRESENCE)) {
    const graph = await call("GET", PRESENCE.replace("{database}", encodeURIComponent(database)), { quiet: true }).catch(() => null);
    for (const { peerKey, deviceName, os } of graph?.peers ?? []) {
      if (peerKey && deviceName) all.push([peerKey, { name: deviceName, os: os ?? "", at: Date.now() }]);
    }
  }
  return all;
}

/** Reads a database's devices, unless that was done a moment ago. A device that has left keeps its name in this browser. @param {string} database */
async function readDevices(database) {
  if (read.database === database && Date.now() - read.at < (isMissed ? SOON_MS : AGAIN_MS)) return;
  isMissed = false;
  if (read.database !== database) devices.set(new Map(kept(`devices.${database}`, /** @type {[string, Device][]} */ ([]))));
  read = { database, at: Date.now() };
  const all = await told(database);
  if (read.database !== database || all.length === 0) return;
  const next = [...new Map([...devices.value, ...all])].sort(([, a], [, b]) => b.at - a.at).slice(0, KEPT);
  devices.set(new Map(next));
  keep(`devices.${database}`, next);
}

/** The database's devices by their peer keys; the page is drawn again when they are known. @param {string} database */
export function useDevices(database) {
  const found = useShared(devices);
  useEffect(() => {
    const look = () => { if (!document.hidden) readDevices(database).catch(() => {}); };
    look();
    const timer = setInterval(look, SOON_MS);
    return () => clearInterval(timer);
  }, [database]);
  return found;
}

/** How many devices have each name, of the devices known now. */
let sharing = { of: devices.value, counts: /** @type {Map<string, number>} */ (new Map()) };

/** Whether no other device has the name: asked for every row of a table. @param {string} name */
function isOnly(name) {
  if (sharing.of !== devices.value) {
    sharing = { of: devices.value, counts: new Map() };
    for (const one of devices.value.values()) sharing.counts.set(one.name, (sharing.counts.get(one.name) ?? 0) + 1);
  }
  return sharing.counts.get(name) === 1;
}

/** A device by its name; of several with one name each has the beginning of its key too. @param {string} key */
export function device(key) {
  const name = devices.value.get(key)?.name;
  if (!name) {
    if (!unknown.has(key) && unknown.size < KEPT) {
      unknown.add(key);
      isMissed = true;
    }
    return shortened(key, 14);
  }
  return isOnly(name) ? name : `${name} (${key.slice(0, 9)}…)`;
}

/**
 * The user, else the device. Programs that write over HTTP share the actor of the service.
 * @param {{user?: string | null, peer?: string | null, actor?: string}} operation
 */
export function by({ user, peer }) {
  if (user) return user;
  return peer ? device(peer) : "a program over HTTP";
}
