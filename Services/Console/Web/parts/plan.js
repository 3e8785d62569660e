// @ts-check
/** A plan as a tree of cards: the steps with rows in and out, each with its own time and its share of the whole. */

import { html } from "../vendor/preact.js";
import { print } from "../exact.js";
import { duration, grouped } from "../format.js";

const BELOW = ["children", "child", "scans", "plan"];
const SLOW = 0.5;

/** The plan within a row of EXPLAIN or PROFILE; null for another row. @param {any} row */
export function planOf(row) { return row?.["~request_profile"]?.plan ?? row?.plan ?? null; }

/** @param {any} step @returns {any[]} */
function inner(step) {
  return BELOW.flatMap((key) => step[key] === undefined ? [] : [step[key]].flat())
    .flatMap((child) => child["#operator"] === "sequence" ? child.children ?? [] : [child]);
}

/** @param {any} step @returns {number | null} Nanoseconds in which the step itself worked. */
function time(step) { const found = step["#stats"]?.phaseTimes?.total; return found === undefined ? null : Number(found); }

/** @param {number} count */
function nanoseconds(count) { return count < 10_000 ? `${(count / 1000).toFixed(1)} µs` : count < 1_000_000 ? `${Math.round(count / 1000)} µs` : duration(count / 1e6); }

/** @param {{row: any}} props */
export function Plan({ row }) {
  const plan = planOf(row);
  if (!plan) return null;
  const profile = row["~request_profile"];
  const steps = plan["#operator"] === "sequence" ? plan.children : [plan];
  const all = (/** @type {any[]} */ list) => list.flatMap((/** @type {any} */ step) => [step, ...all(inner(step))]);
  const sum = all(steps).reduce((/** @type {number} */ total, /** @type {any} */ step) => total + (time(step) ?? 0), 0);
  const times = profile?.times ?? {};
  return html`<div class="plan">
    ${profile && html`<p><b>${grouped(Number(profile.resultCount))}</b> results in <b>${duration(Number(times.elapsed) / 1e6)}</b>
      <span class="quiet"> parsed in ${duration(Number(times.parse) / 1e6)}, planned in ${duration(Number(times.plan) / 1e6)}</span></p>`}
    <ol class="steps">${steps.map((/** @type {any} */ step) => html`<${Step} step=${step} sum=${sum} />`)}</ol></div>`;
}

/** @param {{step: any, sum: number}} props */
function Step({ step, sum }) {
  const operator = step["#operator"] ?? "step";
  const statistics = step["#stats"];
  const took = time(step);
  const share = sum > 0 ? (took ?? 0) / sum : 0;
  const reads = /scan/i.test(operator) && !/index|id|count/i.test(operator);
  const tone = share > SLOW ? "slow" : /index|idScan|countScan/i.test(operator) ? "good" : reads ? "full" : "";
  const shown = Object.entries(step).filter(([key]) => !["#operator", "#stats", ...BELOW].includes(key));
  return html`<li><div class=${`step ${tone}`}>
      <p><b>${operator}</b>${" "}
        ${reads && html`<span class="badge">reads all documents</span>`}
        ${share >= 0.05 && html`<span class="badge share">${Math.round(share * 100)} % of the time</span>`}
        ${statistics && html`<span class="quiet">${statistics.documentsIn !== undefined ? `${grouped(Number(statistics.documentsIn))} in → ` : ""}${
          statistics.documentsOut !== undefined ? `${grouped(Number(statistics.documentsOut))} out` : ""}${took !== null ? `, ${nanoseconds(took)}` : ""}</span>`}</p>
      ${took !== null && sum > 0 && html`<span class="share-bar" aria-hidden="true"><span style=${{ width: `${Math.max(0.4, share * 100)}%` }}></span></span>`}
      ${shown.length > 0 && html`<dl>${shown.map(([key, value]) => html`<div key=${key}><dt>${key}</dt><dd>${typeof value === "string" ? value : print(value)}</dd></div>`)}</dl>`}
    </div>
    ${inner(step).length > 0 && html`<ol>${inner(step).map((child) => html`<${Step} step=${child} sum=${sum} />`)}</ol>`}</li>`;
}
