// @ts-check
/** What needs a look, and what to do about it: from health, readiness and the latest readings of metrics. */

import { html } from "../vendor/preact.js";
import { call } from "../api.js";
import { bytes, duration, grouped } from "../format.js";
import { address } from "../route.js";

/** @typedef {{what: string, todo: string, page?: string, isNote?: boolean}} Warning A note is not urgent. */

/** Seconds that folds, projections and sessions may be behind; a share of a disk that should be free. */
const BEHIND = 30;
const SESSION_BEHIND = 300;
const FREE = 0.2;
const WEEK = 7 * 86_400;

/** A report of the server that also comes with 503. @param {string} path */
async function report(path) { return (await fetch(path, { cache: "no-store" })).json(); }

/** Health, readiness, and for administrators the readings of metrics. @param {boolean} isAdmin */
export async function lookAround(isAdmin) {
  const [health, ready, metrics] = await Promise.all([
    report("/health"), report("/health/ready"), isAdmin ? call("GET", "/admin/metrics/series?step=5", { quiet: true }) : { series: [] },
  ]);
  return { health, ready, series: metrics.series };
}

/** The latest value of a gauge, or what a counter has grown by within an hour. @param {any[]} series @param {string} name @returns {number | null} */
function latest(series, name) {
  const found = series.find((one) => one.name === name);
  if (!found || found.points.length === 0) return null;
  const value = Number(found.points[found.points.length - 1][1]);
  return found.kind === "counter" ? value - Number(found.points[0][1]) : value;
}

/** What to do about a failing part, by its name. @type {Record<string, string>} */
const PARTS = {
  storage: "A copy of the log's documents was damaged and is rebuilt, or a disk is nearly full. See Storage, and `mimeo doctor`.",
  "system-database": "The log does not answer, or was put back to an earlier state. See the guide of operations, \"contact\".",
  replicator: "The log takes no writes or cannot be folded. See Events for the reason.",
  "query-service": "A projection cannot follow the log. See Statements; Rebuild builds it again.",
  "attachment-store": "The folder of attachments cannot be used. See its rights, and Storage.",
  "auth-gateway": "Keys or providers cannot be read. See Events for the reason.",
};

/** @param {{health: any, ready: any, series: any[]}} seen @returns {Warning[]} */
export function warnings({ health, ready, series }) {
  /** @type {Warning[]} */
  const all = [];
  for (const [name, check] of Object.entries(health?.checks ?? {})) {
    if (check.status !== "ok") all.push({ what: `${name}: ${check.detail ?? "it does not work"}`, todo: PARTS[name] ?? "See Events for the reason.", page: "events" });
  }
  for (const one of ready?.reasons ?? []) {
    if (!all.some(({ what }) => what.includes(one.message))) all.push({ what: `${one.part} is not ready: ${one.message} (${one.code})`, todo: "A load balancer sends no requests here meanwhile.", page: "events" });
  }
  const value = (/** @type {string} */ name) => latest(series, name);
  const above = (/** @type {string} */ name, /** @type {number} */ bound, /** @type {(found: number) => Warning} */ made) => {
    const found = value(name);
    if (found !== null && found > bound) all.push(made(found));
  };
  above("mimeo_disk_nearly_full", 0, () => ({ what: "Only the reserve is left on a disk: writes are refused.", todo: "Make room: truncate the log behind a snapshot, remove attachments that nobody mentions, or enlarge the disk.", page: "storage" }));
  const [free, size] = [value("mimeo_disk_free_bytes"), value("mimeo_disk_size_bytes")];
  if (free !== null && size && free / size < FREE) all.push({ isNote: true, what: `${Math.round(free / size * 100)} % of the disks are free, ${bytes(free)}.`, todo: "See what takes the room, and enlarge the disk in time.", page: "storage" });
  above("mimeo_log_contact_age_seconds", 10, (age) => ({ what: `The log has not answered for ${duration(age * 1000)}.`, todo: "Look at its PostgreSQL server, or at the disk. Reads go on for a while; writes are refused.", page: "log" }));
  above("mimeo_fold_lag_seconds", BEHIND, (age) => ({ what: `The replicator is ${duration(age * 1000)} behind the log.`, todo: "It catches up by itself after a burst of writes. If it does not: see Events.", page: "log" }));
  above("mimeo_projection_lag_seconds", BEHIND, (age) => ({ what: `A projection is ${duration(age * 1000)} behind the log.`, todo: "Queries wait for it. See its state and failure.", page: "statements" }));
  above("mimeo_sync_lag_seconds", SESSION_BEHIND, (age) => ({ isNote: true, what: `A session is ${duration(age * 1000)} behind.`, todo: "A slow network does that. On the page Sync, its row has the bytes that wait; disconnecting makes it begin again." }));
  above("mimeo_log_damage_met_total", 0, (count) => ({ what: `${grouped(count)} reads of the last hour found the log damaged.`, todo: "Stop writing, and restore the log from a backup: `mimeo doctor`, then `mimeo restore`.", page: "log" }));
  above("mimeo_storage_copies_damaged_total", 0, (count) => ({ what: `${grouped(count)} copies were damaged within the hour and are rebuilt.`, todo: "Nothing is lost. If it happens again, test the disk and the memory.", page: "storage" }));
  above("mimeo_attachments_damaged_total", 0, (count) => ({ what: `${grouped(count)} attachments were damaged and set aside.`, todo: "A peer that has them uploads them again; else they are in a backup.", page: "storage" }));
  above("mimeo_sync_refused_writes_total", 20, (count) => ({ isNote: true, what: `${grouped(count)} writes of peers were refused within the hour.`, todo: "The peers keep them as refused commits. Events name the code: mostly a right that is missing or a clock that is wrong.", page: "events" }));
  const [open, most] = [value("process_open_fds"), value("process_max_fds")];
  if (open !== null && most && open / most > 0.8) all.push({ what: `${grouped(open)} of ${grouped(most)} open files are in use.`, todo: "Raise the limit of open files of the service (LimitNOFILE)." });
  const end = value("mimeo_tls_certificate_expiry_timestamp_seconds");
  if (end !== null && end - Date.now() / 1000 < WEEK) all.push({ isNote: true, what: "The certificate of this server ends within a week.", todo: "Put the new one in its place: the files are read again by themselves.", page: "settings" });
  return all;
}

/** The verdict, and each warning with what to do. @param {{seen: any, error: any, database: string | null}} props */
export function Verdict({ seen, error, database }) {
  const found = seen ? warnings(seen) : [];
  const tone = error || found.some(({ isNote }) => !isNote) ? "bad" : found.length ? "note" : "good";
  const text = error ? "The server does not answer." : !seen ? "Looking …" : found.length === 0 ? "Everything is in order." : "Something needs a look:";
  return html`<div class=${`verdict ${seen || error ? tone : ""}`} role="status"><p>${text}</p>
    ${found.map((one) => html`<p key=${one.what} class="one"><b>${one.what}</b> ${one.todo}
      ${one.page && html` <a href=${address(database, "operations", [one.page])}>Look</a>`}</p>`)}</div>`;
}
