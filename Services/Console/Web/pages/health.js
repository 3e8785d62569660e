// @ts-check
/** Warnings with what to do, the parts' health, and plots of the last hour or day. */

import { html, useState } from "../vendor/preact.js";
import { call } from "../api.js";
import { bytes, duration } from "../format.js";
import { session, useShared } from "../store.js";
import { Looking, Problem, useLoaded, useRepeated } from "../parts/basics.js";
import { Line } from "../parts/plot.js";
import { lookAround, Verdict } from "../parts/warnings.js";

/** Metrics that matter, in their order, with titles for people. The others are listed under their names. */
const TITLES = /** @type {Record<string, string>} */ ({
  mimeo_http_requests_total: "Requests per second", mimeo_http_request_duration_seconds: "Mean time of a request",
  mimeo_query_duration_seconds: "Mean time of a statement", mimeo_query_slow_total: "Slow statements per second",
  mimeo_sync_sessions: "Sessions of peers", mimeo_sync_queue_bytes: "Bytes that wait for peers",
  mimeo_sync_lag_operations: "Slowest session behind the log", mimeo_log_append_duration_seconds: "Mean time of an append to the log",
  mimeo_fold_lag_operations: "Replicator behind the log", mimeo_projection_lag_operations: "Projection behind the log",
  mimeo_log_size_bytes: "Size of the log", process_resident_memory_bytes: "Memory",
  process_cpu_seconds_total: "Processors in use", mimeo_disk_free_bytes: "Room on the disks",
});
const MATTER = Object.keys(TITLES);

/** A metric's points as they are drawn: a counter as its rate, a histogram as its mean. @param {any} series @returns {[number, number][]} */
export function drawn(series) {
  const points = series.points.map((/** @type {any[]} */ point) => point.map(Number));
  if (series.kind === "gauge") return points;
  return points.slice(1).map((/** @type {number[]} */ point, /** @type {number} */ index) => {
    const before = points[index];
    const seconds = (point[0] - before[0]) / 1000;
    // A counter that falls belongs to a process that was started again.
    if (series.kind === "counter") return [point[0], point[1] >= before[1] ? (point[1] - before[1]) / seconds : 0];
    const count = point[2] - before[2];
    return [point[0], count > 0 ? (point[1] - before[1]) / count : 0];
  });
}

/** @param {any} series */
function unit(series) {
  if (series.name.endsWith("_bytes")) return bytes;
  return series.name.endsWith("_seconds") && series.kind === "histogram" ? (/** @type {number} */ value) => duration(value * 1000) : undefined;
}

/** @param {{database: string | null}} props */
export function Health({ database }) {
  const who = useShared(session);
  const [step, setStep] = useState("5");
  const [showsAll, setShowsAll] = useState(false);
  const seen = useLoaded(() => lookAround(who?.admin ?? false), [who?.admin]);
  const day = useLoaded(() => step === "60" ? call("GET", "/admin/metrics/series?step=60", { quiet: true }) : Promise.resolve(null), [step]);
  useRepeated(() => { seen.again(); if (step === "60") day.again(); }, 5000, [step]);
  /** @type {any[]} */
  const all = (step === "60" ? day.value?.series : seen.value?.series) ?? [];
  const names = new Set(all.map(({ name }) => name));
  // Former names of metrics say the same again.
  const others = all.filter(({ name }) => !MATTER.includes(name) && !names.has(`mimeo_${name}`) && name !== "mimeo_build_info");
  const plot = (/** @type {any} */ one) => html`<${Line} key=${one.name} title=${TITLES[one.name] ?? one.name} points=${drawn(one)} show=${unit(one)} />`;
  const { health } = seen.value ?? {};
  const readings = step === "60" ? { ...day, value: day.value ?? null } : seen;
  return html`<${Verdict} seen=${seen.value} error=${seen.error} database=${database} />
    <${Problem} error=${seen.error ?? day.error} retry=${seen.again} />
    <section class="card" aria-label="Health"><header><h2>Parts</h2><span class="end quiet">${health && html`Version ${health.version}${health.commit ? ` of ${health.commit}` : ""}`}</span></header>
      <ul class="checks">${Object.entries(health?.checks ?? {}).map(([name, check]) => html`<li key=${name}>
        <span class=${`dot ${/** @type {any} */ (check).status === "ok" ? "there" : "away"}`}>${name}</span> ${/** @type {any} */ (check).detail ?? ""}</li>`)}</ul></section>
    <div class="bar"><h2>Readings</h2><label><span class="hidden">Time</span><select value=${step} onChange=${(/** @type {any} */ event) => setStep(event.currentTarget.value)}>
      <option value="5">last hour</option><option value="60">last day</option></select></label></div>
    <${Looking} found=${readings} />
    <div class="plots">${MATTER.map((name) => all.find((one) => one.name === name)).filter(Boolean).map(plot)}</div>
    ${others.length > 0 && html`<button type="button" class="wide-button" aria-expanded=${showsAll} onClick=${() => setShowsAll(!showsAll)}>${showsAll ? "Fewer readings" : `${others.length} more readings`}</button>`}
    ${showsAll && html`<div class="plots">${others.map(plot)}</div>`}`;
}
