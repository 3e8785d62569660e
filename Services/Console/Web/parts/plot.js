// @ts-check
/** Plots over time as SVG. */

import { html, useRef, useState } from "../vendor/preact.js";
import { bytes, exactTime } from "../format.js";

const WIDTH = 560;
const HEIGHT = 150;
const LEFT = 64;
const BOTTOM = 20;

/** @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  for (const [limit, unit] of /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (size >= limit) return `${(value / limit).toFixed(size >= limit * 100 ? 0 : 1)}${unit}`;
  }
  return size >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toPrecision(2);
}

/** A round number at or above a value. @param {number} value @param {boolean} isBinary True for bytes. */
export function above(value, isBinary) {
  if (value <= 0) return 1;
  if (isBinary && value >= 1024) {
    const unit = 1024 ** Math.floor(Math.log2(value) / 10);
    return above(value / unit, false) * unit;
  }
  const scale = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 2.5, 5, 10].find((step) => step * scale >= value) ?? 10) * scale;
}

/**
 * @param {{title: string, points: [number, number][], show?: (value: number) => string}} props
 *   Points are milliseconds and value.
 */
export function Line({ title, points, show = short }) {
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const box = useRef(/** @type {SVGElement | null} */ (null));
  if (points.length < 2) return html`<figure class="plot"><figcaption>${title}</figcaption><p class="quiet">The first readings come within ten seconds.</p></figure>`;
  const from = points[0][0];
  const until = points[points.length - 1][0];
  const values = points.map(([, value]) => value);
  const lowest = Math.min(0, ...values);
  const bottom = lowest < 0 ? -above(-lowest, show === bytes) : 0;
  const top = Math.max(...values) > 0 || bottom === 0 ? above(Math.max(...values), show === bytes) : 0;
  const x = (/** @type {number} */ time) => LEFT + (time - from) / Math.max(1, until - from) * (WIDTH - LEFT - 8);
  const y = (/** @type {number} */ value) => 8 + (1 - (value - bottom) / (top - bottom)) * (HEIGHT - BOTTOM - 8);
  const line = points.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const found = at === null ? null : points.reduce((best, point) => Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best);
  const latest = found ?? points[points.length - 1];
  const hover = (/** @type {any} */ event) => {
    const place = event.currentTarget.getBoundingClientRect();
    setAt(from + ((event.clientX - place.left) / place.width * WIDTH - LEFT) / (WIDTH - LEFT - 8) * (until - from));
  };
  return html`<figure class="plot">
    <figcaption>${title} <b>${show(latest[1])}</b> <span class="quiet">${found ? exactTime(found[0]).slice(11, 19) : ""}</span></figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${title}: ${show(points[points.length - 1][1])} now, at most ${show(Math.max(...points.map(([, value]) => value)))}`}
        ref=${box} onPointerMove=${hover} onPointerLeave=${() => setAt(null)}>
      ${[...new Set([bottom, bottom === 0 ? top / 2 : 0, top])].map((value) => html`<g key=${value}><line class="grid" x1=${LEFT} x2=${WIDTH - 8} y1=${y(value)} y2=${y(value)} />
        <text x=${LEFT - 6} y=${y(value) + 4} text-anchor="end">${show(value)}</text></g>`)}
      <text x=${LEFT} y=${HEIGHT - 4}>${exactTime(from).slice(11, 16)}</text>
      <text x=${WIDTH - 8} y=${HEIGHT - 4} text-anchor="end">${exactTime(until).slice(11, 16)} UTC</text>
      <polygon class="area" points=${`${x(from)},${y(0)} ${line} ${x(until)},${y(0)}`} />
      <polyline class="line" points=${line} />
      ${found && html`<circle class="mark" cx=${x(found[0])} cy=${y(found[1])} r="3.5" />`}
    </svg></figure>`;
}
