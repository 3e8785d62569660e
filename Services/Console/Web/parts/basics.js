// @ts-check
/** Small parts that every page uses: errors at their place, empty places, times, dialogs, copying. */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { ago, exactTime } from "../format.js";
import { dropNote, isAway, note, notes, session, useShared } from "../store.js";

/** Copies a text and says so. @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    note("Copied");
  } catch { note("The browser does not allow copying here"); }
}

/** Time between two attempts of what failed because a server or service is away. */
const AGAIN_MS = 3000;

/** Whether the same request may succeed a moment later. @param {any} error */
function isPassing(error) { return error?.code === "NETWORK" || [502, 503, 504].includes(error?.status); }

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
  // What failed because a service is away is tried again as well: a load, never a write.
  const isWaiting = Boolean(error && retry && isPassing(error));
  const latest = useRef(retry);
  latest.current = retry;
  useEffect(() => {
    if (!isWaiting) return undefined;
    const timer = setInterval(() => { if (!document.hidden) latest.current?.(); }, AGAIN_MS);
    const back = () => { if (!isAway.value) latest.current?.(); };
    isAway.listeners.add(back);
    return () => { clearInterval(timer); isAway.listeners.delete(back); };
  }, [isWaiting]);
  if (!error) return null;
  const id = error.requestID ? ` (request ${error.requestID})` : "";
  const { line, column } = error.details ?? {};
  const place = line && !/\bline \d/.test(error.message) ? ` Line ${line}, column ${column}.` : "";
  const message = place && !/[.!?)]$/.test(error.message) ? `${error.message}.${place}` : `${error.message}${place}`;
  const whole = `${error.code ?? "ERROR"}: ${message}${id}`;
  return html`<div class="problem" role="alert">
    <p><b>${error.code ?? "Error"}</b> ${message}<span class="quiet">${id}${isWaiting ? " It is tried again by itself." : ""}</span></p>
    <div class="actions">
      ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
      <button type="button" onClick=${() => copy(whole)}>Copy</button>
      ${close && html`<button type="button" aria-label="Close the error" onClick=${close}>✕</button>`}
    </div></div>`;
}

/** A place where nothing is yet: what would be here, and how it gets here. @param {{title: string, whole?: boolean, children?: any}} props `whole`: it is the whole page. */
export function Empty({ title, whole, children }) {
  return html`<div class="empty">${whole ? html`<h1>${title}</h1>` : html`<h2>${title}</h2>`}${children}</div>`;
}

/**
 * Whether what the page shows follows the changes; while its stream is cut, since when it does not.
 * @param {{link: Link | null}} props
 * @typedef {{open: boolean, error: any, at: number}} Link
 */
export function LiveBadge({ link }) {
  if (!link) return null;
  if (link.open) return html`<span class="live">live</span>`;
  const reason = link.error?.code === "NETWORK" || !link.error?.code ? "The server cannot be reached." : `${link.error.code}: ${link.error.message}.`;
  return html`<span class="live cut" role="status" title=${`${reason} What you see is from then. The page connects again by itself, every few seconds.`}>not live since ${
    exactTime(link.at).slice(11, 19)}, connecting again …</span>`;
}

/** The badge of what is asked for again and again: since when it is out of date, once an answer fails. @param {{found: any}} props */
export function Refreshed({ found }) {
  if (!found.value) return null;
  return html`<${LiveBadge} link=${{ open: !found.error, error: found.error, at: found.at }} />`;
}

/** The place of something that is looked for; empty once it was found, or was not. @param {{found: {value: any, error: any}}} props */
export function Looking({ found }) { return found.value || found.error ? null : html`<p class="quiet" role="status">Looking …</p>`; }

/** Whether something is looked for, was found, or was not. @param {any} found @param {(value: any) => string} text */
export function progress(found, text) { return found.value ? text(found.value) : found.error ? "" : "Looking …"; }

/**
 * The state of a stream for its badge: the time of a cut is that of the first failure.
 * @returns {[Link | null, (state: {open: boolean, error: any}) => void]}
 */
export function useLink() {
  const [link, setLink] = useState(/** @type {Link | null} */ (null));
  const told = (/** @type {{open: boolean, error: any}} */ { open, error }) => {
    if (open) isAway.set(false);
    setLink((/** @type {Link | null} */ old) => old && old.open === open ? old : { open, error, at: Date.now() });
  };
  return [link, told];
}

/** Examples of moments, for fields with the list `moments`. */
export function MOMENTS() {
  const day = new Date().toISOString().slice(0, 10);
  return html`<datalist id="moments">${["10 min ago", "1 h ago", "1 d ago", `${day} 00:00`].map((one) => html`<option key=${one} value=${one} />`)}</datalist>`;
}

/** Whether the page is seen, or was a moment ago: a browser has few connections for all its tabs. */
export function useSeen() {
  const [isSeen, setSeen] = useState(!document.hidden);
  useEffect(() => {
    /** @type {any} */
    let timer;
    const look = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => setSeen(false), UNSEEN_MS);
      else setSeen(true);
    };
    document.addEventListener("visibilitychange", look);
    return () => { clearTimeout(timer); document.removeEventListener("visibilitychange", look); };
  }, []);
  return isSeen;
}
const UNSEEN_MS = 10_000;

/** A moment, relative, with the exact one as its title. @param {{at: number}} props */
export function Time({ at }) {
  return html`<time dateTime=${new Date(at).toISOString()} title=${exactTime(at)}>${ago(at)}</time>`;
}

/**
 * A dialog over the page. Escape and its button close it; a press beside it does as long as nothing was typed,
 * which would be lost. The focus goes back to the element that had it.
 * @param {{title: string, close?: () => void, wide?: boolean, beside?: boolean, children?: any}} props
 *   `beside`: whether a press beside it closes it, whatever was typed.
 */
export function Dialog({ title, close, wide, beside, children }) {
  const element = useRef(/** @type {any} */ (null));
  const isTouched = useRef(false);
  const touch = () => { isTouched.current = true; };
  useLayoutEffect(() => {
    const own = element.current;
    if (!own.open) own.showModal();
    // Only a dialog that is closed before it goes gives the focus back.
    return () => own.close();
  }, []);
  const press = (/** @type {PointerEvent} */ event) => {
    // Its backdrop is the dialog's own, outside of its box.
    if (event.target !== element.current || !(beside ?? !isTouched.current)) return;
    const { left, right, top, bottom } = element.current.getBoundingClientRect();
    if (event.clientX < left || event.clientX > right || event.clientY < top || event.clientY > bottom) close?.();
  };
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-label=${title} onInput=${touch} onChange=${touch} onPointerDown=${press}
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
 * @returns {{value: T | null, error: any, isLoading: boolean, at: number, again: () => void}} at: when the value came.
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState({ value: null, error: null, isLoading: true, at: 0 });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setState((/** @type {any} */ old) => ({ ...old, isLoading: true }));
    load(stop.signal).then(
      (value) => { if (!stop.signal.aborted) setState({ value, error: null, isLoading: false, at: Date.now() }); },
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
