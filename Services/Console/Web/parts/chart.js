// @ts-check
/** A chart of rows: a name and one or several numbers each, as bars on both sides of zero, or as lines. */

import { html, useState } from "../vendor/preact.js";
import { kind } from "../exact.js";
import { grouped, keyText, preview } from "../format.js";
import { above, short } from "./plot.js";

/** Rows that are drawn as bars, and as lines. */
const BARS = 60;
const POINTS = 5000;
/** Series that can be told apart. */
const SERIES = 6;
const WIDTH = 880;
const HEIGHT = 300;
const LEFT = 64;

/** A number; null where there is none. @param {any} value @returns {number | null} */
function numberOf(value) {
  return ["integer", "double"].includes(kind(value)) && Number.isFinite(Number(value)) ? Number(value) : null;
}

/** @param {any} value */
function nameOf(value) { return value === undefined ? "–" : preview(value, 60); }

/** @param {{rows: any[], names: string[], numeric: string[]}} props `numeric`: the columns with numbers. */
export function Chart({ rows, names, numeric }) {
  const [chosen, setChosen] = useState(/** @type {string[] | null} */ (null));
  const [label, setLabel] = useState(/** @type {string | null} */ (null));
  const [form, setForm] = useState(/** @type {string | null} */ (null));
  const series = (chosen ?? numeric).filter((key) => numeric.includes(key) && key !== label).slice(0, SERIES);
  const by = label !== null && names.includes(label) ? label : names.find((key) => !numeric.includes(key)) ?? null;
  const kindOf = form ?? (rows.length > BARS ? "lines" : "bars");
  const title = `${series.map(keyText).join(", ") || "nothing"} by ${by === null ? "row" : keyText(by)}`;
  const toggle = (/** @type {string} */ key) => setChosen(series.includes(key) ? series.filter((one) => one !== key) : [...series, key]);
  return html`<figure class="chart" aria-label=${title}><figcaption>${title}</figcaption>
    <div class="bar"><label>Name <select value=${by ?? ""} onChange=${(/** @type {any} */ event) => setLabel(event.currentTarget.value)}>
        <option value="">row</option>${names.map((key) => html`<option key=${key} value=${key}>${keyText(key)}</option>`)}</select></label>
      <label>Drawn as <select value=${kindOf} onChange=${(/** @type {any} */ event) => setForm(event.currentTarget.value)}><option value="bars">bars</option><option value="lines">lines</option></select></label>
      <span class="choices" role="group" aria-label="Values">${numeric.map((key) => html`<label class="check" key=${key}><input type="checkbox" checked=${series.includes(key)}
        disabled=${!series.includes(key) && series.length >= SERIES} onChange=${() => toggle(key)} /><span class=${`swatch series-${series.indexOf(key)}`} aria-hidden="true"></span>${keyText(key)}</label>`)}</span></div>
    ${series.length === 0 ? html`<p class="quiet">Choose a value.</p>`
      : kindOf === "bars" ? html`<${Bars} rows=${rows} by=${by} series=${series} />` : html`<${Lines} rows=${rows} by=${by} series=${series} title=${title} />`}</figure>`;
}

/** @param {{rows: any[], by: string | null, series: string[]}} props */
function Bars({ rows, by, series }) {
  const shown = rows.slice(0, BARS);
  const values = shown.flatMap((row) => series.map((key) => numberOf(row?.[key]) ?? 0));
  const [least, most] = [Math.min(0, ...values), Math.max(0, ...values)];
  const whole = most - least || 1;
  const part = (/** @type {number} */ value) => `${Math.abs(value) / whole * 100}%`;
  return html`<table class="bars"><thead><tr><th scope="col">${by === null ? "Row" : keyText(by)}</th><th scope="col">Value</th><th scope="col"><span class="hidden">Number</span></th></tr></thead>
    <tbody>${shown.map((row, index) => series.map((key, place) => {
      const value = numberOf(row?.[key]);
      return html`<tr key=${`${index} ${key}`} class=${place === 0 ? "first" : ""}>${place === 0 && html`<th scope="rowgroup" rowspan=${series.length}>${by === null ? index + 1 : nameOf(row?.[by])}</th>`}
        <td><span class="track"><span class=${`bar series-${place} ${(value ?? 0) < 0 ? "negative" : ""}`} style=${{ left: part((value ?? 0) < 0 ? (value ?? 0) - least : least), width: part(value ?? 0) }}></span>
          <span class="zero" style=${{ left: part(least) }}></span></span></td>
        <td class="right">${value === null ? html`<span class="quiet">–</span>` : grouped(value)}${series.length > 1 ? html`<span class="hidden"> ${keyText(key)}</span>` : ""}</td></tr>`;
    }))}</tbody>${rows.length > shown.length && html`<caption>The first ${shown.length} of ${grouped(rows.length)} rows</caption>`}</table>`;
}

/** @param {{rows: any[], by: string | null, series: string[], title: string}} props */
function Lines({ rows, by, series, title }) {
  const shown = rows.slice(0, POINTS);
  const all = series.map((key) => shown.map((row) => numberOf(row?.[key])));
  const values = all.flat().filter((value) => value !== null);
  // Far too many values for the arguments of a call.
  const [lowest, highest] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [0, 0]);
  const bottom = lowest < 0 ? -above(-lowest, false) : 0;
  const top = highest > 0 || bottom === 0 ? above(highest, false) : 0;
  const x = (/** @type {number} */ index) => LEFT + index / Math.max(1, shown.length - 1) * (WIDTH - LEFT - 8);
  const y = (/** @type {number} */ value) => 8 + (1 - (value - bottom) / (top - bottom)) * (HEIGHT - 28);
  // A gap where a row has no number.
  const path = (/** @type {(number | null)[]} */ line) => line.map((value, index) => value === null ? "" : `${index === 0 || line[index - 1] === null ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const name = (/** @type {number} */ index) => by === null ? String(index + 1) : nameOf(shown[index]?.[by]);
  return html`<svg class="plot" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${title}: from ${short(lowest)} to ${short(highest)} in ${grouped(shown.length)} rows`}>
    ${[...new Set([bottom, bottom === 0 ? top / 2 : 0, top])].map((value) => html`<g key=${value}><line class=${value === 0 ? "zero" : "grid"} x1=${LEFT} x2=${WIDTH - 8} y1=${y(value)} y2=${y(value)} /><text x=${LEFT - 6} y=${y(value) + 4} text-anchor="end">${short(value)}</text></g>`)}
    ${all.map((line, place) => html`<path key=${series[place]} class=${`line series-${place}`} d=${path(line)} />`)}
    ${shown.length <= 200 && all.map((line, place) => line.map((value, index) => value === null ? null : html`<circle key=${`${place} ${index}`} class=${`mark series-${place}`} cx=${x(index)} cy=${y(value)} r="2.5"><title>${`${name(index)}: ${keyText(series[place])} ${grouped(value)}`}</title></circle>`))}
    <text x=${LEFT} y=${HEIGHT - 4}>${name(0)}</text><text x=${WIDTH - 8} y=${HEIGHT - 4} text-anchor="end">${name(shown.length - 1)}</text></svg>
    ${rows.length > shown.length && html`<p class="quiet">The first ${grouped(shown.length)} of ${grouped(rows.length)} rows</p>`}`;
}
