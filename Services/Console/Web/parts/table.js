// @ts-check
/**
 * A table of any number of rows: only those in view are in the page. Rows have one height; the keyboard moves
 * through them, Enter opens one. Where values can be picked, a click on one does, or the arrows and `f`.
 */

import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const ROW = 30;
/** Rows beyond the view on either side. */
const MARGIN = 8;
/** Browsers draw no element that is higher than some 16 million pixels. */
const HIGHEST = 8_000_000;

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {any} title
 * @property {string} [width] A width of CSS grid.
 * @property {(row: any, index: number) => any} cell
 * @property {boolean} [right]
 */

/**
 * @param {{label: string, rows: any[], columns: Column[], rowKey: (row: any, index: number) => string,
 *   open?: (row: any, index: number) => void, fresh?: Set<string>, selected?: Set<string>,
 *   select?: (key: string, isSelected: boolean) => void, widen?: (key: string, width: number) => void, pick?: (row: any, column: Column, box: DOMRect) => void}} props
 */
export function Table({ label, rows, columns, rowKey, open, fresh, selected, select, widen, pick }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(0);
  const [place, setPlace] = useState(0);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight });
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => { if (active >= rows.length) setActive(Math.max(0, rows.length - 1)); }, [rows.length]);

  const whole = rows.length * ROW;
  const height = Math.min(whole, HIGHEST);
  // Above the highest element, places in it stand for places in a longer table.
  const scale = height > view.height && whole > HIGHEST ? (whole - view.height) / (height - view.height) : 1;
  const offset = view.top * scale;
  const first = Math.max(0, Math.floor(offset / ROW) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((offset + view.height) / ROW) + MARGIN);
  const shift = view.top - offset;
  // Cells are drawn again when the row or the columns are others, not because a table was drawn again.
  const shape = columns.map(({ key }) => key).join("\u0000");
  const [drag, setDrag] = useState(/** @type {null | {key: string, width: number}} */ (null));
  const widths = columns.map(({ key, width }) => drag?.key === key ? `${drag.width}px` : width ?? "minmax(90px, 1fr)");
  const template = (select ? "34px " : "") + widths.join(" ");
  // Head and rows are grids of their own: with the same least width their columns stay in line.
  const least = `${widths.reduce((sum, width) => sum + Number(/\d+/.exec(width)?.[0] ?? 90), select ? 34 : 0)}px`;

  const reveal = (/** @type {number} */ index) => {
    const element = frame.current;
    if (!element) return;
    const top = index * ROW;
    if (top < offset) element.scrollTop = top / scale;
    else if (top + ROW * 2 > offset + view.height) element.scrollTop = (top + ROW * 2 - view.height) / scale;
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.target !== frame.current) return;
    const page = Math.max(1, Math.floor(view.height / ROW) - 2);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      const next = Math.max(0, Math.min(rows.length - 1, active + steps[event.key]));
      setActive(next);
      reveal(next);
    } else if (pick && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      event.preventDefault();
      const next = Math.max(0, Math.min(columns.length - 1, place + (event.key === "ArrowLeft" ? -1 : 1)));
      setPlace(next);
      frame.current?.querySelector(".table-row.active")?.children[next + (select ? 1 : 0)]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else if (pick && event.key === "f" && !event.ctrlKey && !event.metaKey && rows[active]) {
      event.preventDefault();
      const cell = frame.current?.querySelector(".table-row.active .active-cell");
      if (cell) pick(rows[active], columns[place], cell.getBoundingClientRect());
    } else if (event.key === "Enter" && open && rows[active]) {
      event.preventDefault();
      open(rows[active], active);
    } else if (event.key === " " && select && rows[active]) {
      event.preventDefault();
      const key = rowKey(rows[active], active);
      select(key, !selected?.has(key));
    }
  };

  return html`<div class="table" role="grid" aria-label=${label} aria-rowcount=${rows.length + 1} tabIndex="0" ref=${frame}
      aria-activedescendant=${rows.length ? `row-${active}` : undefined}
      onScroll=${(/** @type {any} */ event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
      onKeyDown=${keys}>
    <div class="table-head" role="row" aria-rowindex="1" style=${{ gridTemplateColumns: template, minWidth: least }}>
      ${select && html`<span role="columnheader"><span class="hidden">Chosen</span></span>`}
      ${columns.map((column) => html`<span role="columnheader" key=${column.key} class=${column.right ? "right" : ""}>${column.title}${widen && html`<${Edge} column=${column} drag=${setDrag} widen=${widen} />`}</span>`)}
    </div>
    <div class="table-body" role="rowgroup" style=${{ height: `${height}px`, minWidth: least }}>
      ${rows.slice(first, last).map((row, place) => {
        const index = first + place;
        const key = rowKey(row, index);
        return html`<${Row} key=${key} id=${key} row=${row} index=${index} columns=${columns} shape=${shape} template=${template} top=${index * ROW + shift}
          isActive=${index === active} activePlace=${pick && index === active ? place : -1} pick=${pick} choosePlace=${setPlace} isFresh=${fresh?.has(key) ?? false} isSelected=${selected?.has(key)} select=${select} open=${open} activate=${setActive} />`;
      })}
    </div></div>`;
}

/** Widths of a column in pixels. */
const NARROWEST = 48;
const WIDEST = 1200;
const STEP = 16;

/**
 * The edge of a column's title: dragged, or moved by the arrows, it makes the column wider.
 * @param {{column: Column, drag: (state: null | {key: string, width: number}) => void, widen: (key: string, width: number) => void}} props
 */
function Edge({ column, drag, widen }) {
  const edge = useRef(/** @type {HTMLElement | null} */ (null));
  const bounded = (/** @type {number} */ width) => Math.round(Math.max(NARROWEST, Math.min(WIDEST, width)));
  const now = () => edge.current?.parentElement?.getBoundingClientRect().width ?? NARROWEST;
  const begin = (/** @type {PointerEvent} */ event) => {
    event.preventDefault();
    const [from, width] = [event.clientX, now()];
    let latest = bounded(width);
    const move = (/** @type {PointerEvent} */ later) => { latest = bounded(width + later.clientX - from); drag({ key: column.key, width: latest }); };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      drag(null);
      widen(column.key, latest);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    event.stopPropagation();
    widen(column.key, bounded(now() + (event.key === "ArrowLeft" ? -STEP : STEP)));
  };
  return html`<span class="edge" role="separator" aria-orientation="vertical" tabIndex="0" ref=${edge} aria-label=${`Width of ${column.key}`}
    aria-valuemin=${NARROWEST} aria-valuemax=${WIDEST} aria-valuenow=${Number(/\d+/.exec(column.width ?? "")?.[0] ?? 90)} onPointerDown=${begin} onKeyDown=${keys}></span>`;
}

/** One row, which is drawn again only when something of it has changed: scrolling draws the new rows alone. */
class Row extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    const now = /** @type {any} */ (this).props;
    return ["row", "index", "shape", "template", "top", "isActive", "activePlace", "isFresh", "isSelected"].some((key) => now[key] !== next[key]);
  }

  render() {
    const { id, row, index, columns, template, top, isActive, isFresh, isSelected, select, open, activate, pick, activePlace, choosePlace } = /** @type {any} */ (this).props;
    const classes = ["table-row", isActive ? "active" : "", isFresh ? "fresh" : ""].join(" ");
    const click = (/** @type {MouseEvent} */ event) => {
      activate(index);
      const target = /** @type {HTMLElement} */ (event.target);
      if (target.closest("button, a, input") || String(getSelection())) return;
      if (!pick) return open?.(row, index);
      const cell = target.closest("[role=gridcell]");
      const place = cell ? [.../** @type {HTMLElement} */ (cell.parentElement).children].indexOf(cell) - (select ? 1 : 0) : -1;
      if (!cell || place < 0) return;
      choosePlace(place);
      pick(row, columns[place], cell.getBoundingClientRect());
    };
    const twice = (/** @type {MouseEvent} */ event) => {
      if (pick && !(/** @type {HTMLElement} */ (event.target)).closest("button, a, input")) open?.(row, index);
    };
    return html`<div id=${`row-${index}`} class=${classes} role="row" aria-rowindex=${index + 2} aria-selected=${isSelected}
        style=${{ gridTemplateColumns: template, transform: `translateY(${top}px)` }} onClick=${click} onDblClick=${twice}>
      ${select && html`<span role="gridcell" class="choose"><input type="checkbox" aria-label=${`Choose row ${index + 1}`} checked=${isSelected ?? false}
        onClick=${(/** @type {any} */ event) => select(id, event.currentTarget.checked)} /></span>`}
      ${columns.map((/** @type {any} */ column, /** @type {number} */ place) => html`<span role="gridcell" key=${column.key} class=${`${column.right ? "right" : ""} ${place === activePlace ? "active-cell" : ""} ${pick ? "picks" : ""}`}>${column.cell(row, index)}</span>`)}
    </div>`;
  }
}
