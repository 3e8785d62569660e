// @ts-check
/** What has happened within the hour: writes, who made them, the devices that were here, and errors. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { breath, call, client } from "../api.js";
import { by, device, useDevices } from "../author.js";
import { print } from "../exact.js";
import { ago, counted, exactTime, grouped, idText, shortened } from "../format.js";
import { parts } from "../pages/events.js";
import { SERVICES } from "../pages/settings.js";
import { address } from "../route.js";
import { head, isSystem } from "../schema.js";
import { mayAdmin } from "../store.js";
import { Empty, Problem, progress, Time, useLoaded, useRepeated, useSeen } from "./basics.js";

/** The time that the activity covers, and the parts that it is drawn in. */
const HOUR = 3_600_000;
const PARTS = 30;
const PART_MS = HOUR / PARTS;
/** Changes that are read at a time: more of them come with the next look, which goes on where the last one ended. */
const READ = 20_000;
const LATEST = 8;
/** Time between two looks, and until the next one of an hour that was not read to its end. */
const AGAIN_MS = 15_000;
const SOON_MS = 3000;
/** Writers, devices and errors that are listed. */
const LISTED = 6;
const ERRORS = 4;

/** @typedef {{user?: string | null, peer?: string | null, count: number}} Writer */

/** The changes of an hour, counted by parts of it as they are read. */
class Hour {
  /** @param {number} now */
  constructor(now) {
    /** @type {string | number} The place in the log up to which it was read. */
    this.place = new Date(now - HOUR).toISOString();
    /** @type {Map<number, {count: number, writers: Map<string, Writer>}>} By the number of the part since 1970. */
    this.parts = new Map();
    /** @type {{line: any, count: number}[]} The last operations that were read: a change of each, and how many it has. */
    this.latest = [];
    /** Whether the log has more than was read. */
    this.isBehind = false;
  }

  /** Takes an operation: all its changes have one writer and one time. @param {any[]} lines */
  add(lines) {
    const [{ transactionId, user, peer, time }] = lines;
    this.place = Number(transactionId);
    const own = lines.filter(({ collection }) => !isSystem(collection));
    if (own.length === 0) return;
    const at = Math.floor(Date.parse(time) / PART_MS);
    const part = this.parts.get(at) ?? { count: 0, writers: new Map() };
    this.parts.set(at, part);
    part.count += own.length;
    const key = print([user ?? null, user ? null : peer ?? null]);
    const writer = part.writers.get(key) ?? { user, peer, count: 0 };
    part.writers.set(key, writer);
    writer.count += own.length;
    this.latest = [...this.latest, { line: own[0], count: own.length }].slice(-LATEST);
  }

  /** What is within the hour before a moment; earlier parts go. @param {number} now */
  summary(now) {
    const last = Math.floor(now / PART_MS);
    for (const at of this.parts.keys()) if (at <= last - PARTS) this.parts.delete(at);
    const bars = Array.from({ length: PARTS }, (_, index) => ({ at: (last - PARTS + 1 + index) * PART_MS, count: this.parts.get(last - PARTS + 1 + index)?.count ?? 0 }));
    return { bars, count: bars.reduce((sum, one) => sum + one.count, 0), writers: [...this.parts.values()].flatMap(({ writers }) => [...writers.values()]) };
  }
}

/**
 * Reads on in the log, as far as one look goes.
 * @param {string} database @param {Hour} hour @param {AbortSignal} signal
 */
async function readOn(database, hour, signal) {
  let count = 0;
  /** @type {any[]} */
  let operation = [];
  for await (const line of client(database).changes({ since: hour.place, values: "none", signal })) {
    operation.push(line);
    await breath();
    if (!line.last) continue;
    // As a whole, and by nobody who was told to end: the next look goes on behind it.
    if (signal.aborted) return;
    hour.add(operation);
    count += operation.length;
    operation = [];
    hour.isBehind = count >= READ;
    if (hour.isBehind) return;
  }
  hour.isBehind = false;
}

/** The last changes of the log, where the hour was not read up to them. @param {string} database @param {AbortSignal} signal */
async function lastChanges(database, signal) {
  const last = new Hour(Date.now());
  last.place = Math.max(0, await head(database, signal) - LATEST);
  await readOn(database, last, signal);
  return last.latest;
}

/**
 * The changes of the last hour: read once, and then as they come.
 * @param {string} database @returns {{value: any, error: any, again: () => void}}
 */
function useHour(database) {
  const isSeen = useSeen();
  const kept = useRef(/** @type {{of: string, hour: Hour} | null} */ (null));
  const [state, setState] = useState({ value: /** @type {any} */ (null), error: /** @type {any} */ (null) });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!isSeen) return undefined;
    const stop = new AbortController();
    const { signal } = stop;
    if (kept.current?.of !== database) kept.current = { of: database, hour: new Hour(Date.now()) };
    const { hour } = kept.current;
    (async () => {
      while (!signal.aborted) {
        await readOn(database, hour, signal);
        const latest = hour.isBehind ? await lastChanges(database, signal) : hour.latest;
        if (signal.aborted) return;
        setState({ value: { ...hour.summary(Date.now()), isBehind: hour.isBehind, latest: [...latest].reverse() }, error: null });
        await new Promise((resolve) => { setTimeout(resolve, hour.isBehind ? SOON_MS : AGAIN_MS); });
      }
    })().catch((error) => { if (!signal.aborted) setState((/** @type {any} */ old) => ({ ...old, error })); });
    return () => stop.abort();
  }, [database, isSeen, turn]);
  return { ...state, again: () => setTurn((/** @type {number} */ n) => n + 1) };
}

/** Lines of the services' logs that are errors of the last hour; null for whoever may not see them. */
async function errorsOfTheHour() {
  if (!mayAdmin("read")) return null;
  const all = await Promise.all(SERVICES.map(async (service) => {
    const { lines } = await call("GET", `/admin/${service}/log-lines`, { quiet: true });
    return lines.map(parts).map((/** @type {any} */ one) => ({ ...one, service }));
  }));
  // The services of one process have one log, of which each shows all lines.
  const found = new Map(all.flat().filter((one) => ["error", "critical"].includes(one.level) && Date.now() - one.at < HOUR).map((one) => [`${one.at} ${one.text}`, one]));
  return [...found.values()].sort((a, b) => b.at - a.at);
}

/** Writers by their names, which are known later than what they wrote. @param {Writer[]} all @returns {[string, number][]} */
function byName(all) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const one of all) found.set(by(one), (found.get(by(one)) ?? 0) + one.count);
  return [...found].sort((a, b) => b[1] - a[1]);
}

/** Devices that were here within the hour, the latest first. @param {Map<string, import("../author.js").Device>} devices */
function here(devices) { return [...devices].filter(([, { at }]) => Date.now() - at < HOUR).sort(([, a], [, b]) => b.at - a.at); }

/** What has happened within the hour. @param {{database: string}} props */
export function Activity({ database }) {
  const devices = here(useDevices(database));
  const changes = useHour(database);
  const errors = useLoaded(() => errorsOfTheHour(), []);
  useRepeated(errors.again, AGAIN_MS, [database]);
  const { bars = [], count = 0, latest = [], isBehind = false } = changes.value ?? {};
  const writers = byName(changes.value?.writers ?? []);
  const more = (/** @type {any[]} */ all) => all.length > LISTED && html`<p class="quiet">and ${all.length - LISTED} more</p>`;
  return html`<section class="card" aria-label="The last hour"><header><h2>The last hour</h2>
      <span class="count" role="status">${progress(changes, () => `${counted(count, "change")}${isBehind ? " so far, and more" : ""}`)}</span>
      <span class="end"><a class="button" href=${address(database, "live", [], { since: new Date(Date.now() - HOUR).toISOString() })}>All of them</a></span></header>
    <${Problem} error=${changes.error} retry=${changes.again} />
    ${changes.value && count === 0 && html`<${Empty} title="Nothing was written"><p>Each write of a device or a program appears here.</p></${Empty}>`}
    ${count > 0 && html`<${Bars} bars=${bars} />`}
    <div class="three">
      ${count > 0 && html`<div><h3>By whom</h3><ul class="who-wrote">${writers.slice(0, LISTED).map((/** @type {[string, number]} */ [one, number]) => html`<li key=${one}><b>${shortened(one, 40)}</b><span class="quiet">${counted(number, "change")}</span></li>`)}</ul>${more(writers)}</div>
      <div><h3>Latest</h3><ul class="who-wrote">${latest.map((/** @type {{line: any, count: number}} */ { line, count: size }) => html`<li key=${line.transactionId}>
        <span class=${`badge ${line.method}`}>${line.method}</span> <a href=${address(database, "data", [line.collection, print(line.id)])}>${line.collection} / ${shortened(idText(line.id), 24)}</a>
        <span class="quiet">${size > 1 ? `and ${grouped(size - 1)} more, ` : ""}${by(line)}, <${Time} at=${Date.parse(line.time)} /></span></li>`)}</ul></div>`}
      ${devices.length > 0 && html`<div><h3>Devices</h3><ul class="who-wrote">${devices.slice(0, LISTED).map(([key, { os, at }]) => html`<li key=${key} title=${key}><b>${device(key)}</b> <span class="quiet">${os}${os ? ", " : ""}seen <${Time} at=${at} /></span></li>`)}</ul>${more(devices)}</div>`}</div>
    <${Problem} error=${errors.error} retry=${errors.again} />
    ${errors.value && html`<h3>Errors</h3>${errors.value.length === 0 ? html`<p class="quiet">The server has written none into its log.</p>` : html`<ul class="who-wrote">${errors.value.slice(0, ERRORS).map((/** @type {any} */ one) => html`<li key=${`${one.at} ${one.text}`}>
        <span class="badge level-error">${one.level}</span> <span>${shortened(one.text, 160)}</span> <span class="quiet"><${Time} at=${one.at} /></span></li>`)}</ul>
      <p><a href=${address(database, "operations", ["events"], { level: "error" })}>${counted(errors.value.length, "line")} of the log</a></p>`}`}</section>`;
}

/** Changes over the hour as bars. @param {{bars: {at: number, count: number}[]}} props */
function Bars({ bars }) {
  const highest = Math.max(1, ...bars.map(({ count }) => count));
  return html`<svg class="activity" viewBox=${`0 0 ${PARTS * 10} 40`} preserveAspectRatio="none" role="img" aria-label=${`Changes within the hour, at most ${counted(highest, "change")} in two minutes`}>
    ${bars.map(({ at, count }, index) => html`<rect key=${at} x=${index * 10 + 1} y=${40 - count / highest * 38} width="8" height=${Math.max(count > 0 ? 1 : 0, count / highest * 38)}><title>${`${counted(count, "change")} from ${exactTime(at).slice(11, 16)} UTC, ${ago(at)}`}</title></rect>`)}</svg>`;
}
