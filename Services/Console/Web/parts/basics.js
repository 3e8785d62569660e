// @ts-check
/** Small parts that every page uses: errors at their place, empty places, times, dialogs, copying. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { ago, exactTime } from "../format.js";
import { dropNote, note, notes, session, useShared } from "../store.js";

/** Copies a text and says so. @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    note("Copied");
  } catch { note("The browser does not allow copying here"); }
}

/**
 * An error at its place. It stays until it is closed, and can be copied whole.
 * @param {{error: any, retry?: () => void, close?: () => void}} props
 */
export function Problem({ error, retry, close }) {
  const who = useShared(session);
  const before = useRef(who);
  // What failed for want of a session is tried again by itself once there is one.
  useEffect(() => {
    const isOther = who !== before.current;
    before.current = who;
    if (isOther && error?.status === 401) retry?.();
  }, [who]);
  if (!error) return null;
  const id = error.requestID ? ` (request ${error.requestID})` : "";
  const place = error.details?.line && !/\bline \d/.test(error.message) ? ` Line ${error.details.line}, column ${error.details.column}.` : "";
  const whole = `${error.code ?? "ERROR"}: ${error.message}${place}${id}`;
  return html`<div class="problem" role="alert">
    <p><b>${error.code ?? "Error"}</b> ${error.message}${place}<span class="quiet">${id}</span></p>
    <div class="actions">
      ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
      <button type="button" onClick=${() => copy(whole)}>Copy</button>
      ${close && html`<button type="button" aria-label="Close the error" onClick=${close}>✕</button>`}
    </div></div>`;
}

/** A place where nothing is yet: what would be here, and how it gets here. @param {{title: string, children?: any}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

/** A moment, relative, with the exact one as its title. @param {{at: number}} props */
export function Time({ at }) {
  return html`<time dateTime=${new Date(at).toISOString()} title=${exactTime(at)}>${ago(at)}</time>`;
}

/**
 * A dialog over the page. Escape and its button close it; a click beside it does nothing, so that nothing
 * typed is lost.
 * @param {{title: string, close?: () => void, wide?: boolean, children?: any}} props
 */
export function Dialog({ title, close, wide, children }) {
  const element = useRef(null);
  useEffect(() => { if (!element.current.open) element.current.showModal(); }, []);
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-label=${title}
      onCancel=${(/** @type {Event} */ event) => { event.preventDefault(); close?.(); }}>
    <header><h2>${title}</h2>
      ${close && html`<button type="button" class="plain" aria-label="Close" onClick=${close}>✕</button>`}
    </header>${children}</dialog>`;
}

/** Notes that go by themselves, at the page's foot. */
export function Notes() {
  const all = useShared(notes);
  return html`<div class="notes" role="status" aria-live="polite">${all.map((item) => html`
    <p key=${item.number}>${item.text}
      ${item.undo && html`<button type="button" onClick=${async () => {
        dropNote(item.number);
        try { await item.undo(); } catch (error) { note(`Not undone: ${/** @type {Error} */ (error).message}`); }
      }}>Undo</button>`}
      <button type="button" class="plain" aria-label="Close the note" onClick=${() => dropNote(item.number)}>✕</button>
    </p>`)}</div>`;
}

/**
 * Loads something, and again whenever its inputs change.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load @param {any[]} inputs
 * @returns {{value: T | null, error: any, isLoading: boolean, again: () => void}}
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState({ value: null, error: null, isLoading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setState((/** @type {any} */ old) => ({ ...old, isLoading: true }));
    load(stop.signal).then(
      (value) => { if (!stop.signal.aborted) setState({ value, error: null, isLoading: false }); },
      (error) => { if (!stop.signal.aborted) setState((/** @type {any} */ old) => ({ ...old, error, isLoading: false })); });
    return () => stop.abort();
  }, [...inputs, turn]);
  return { ...state, again: () => setTurn((/** @type {number} */ n) => n + 1) };
}

/** Calls a function again and again while the page is seen. @param {() => void} body @param {number} milliseconds @param {any[]} inputs */
export function useRepeated(body, milliseconds, inputs) {
  const latest = useRef(body);
  latest.current = body;
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) latest.current(); }, milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds, ...inputs]);
}
