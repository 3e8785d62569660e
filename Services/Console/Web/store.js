// @ts-check
/** What several parts of the page share: a value with listeners, and the page's own few of them. */

import { useEffect, useState } from "./vendor/preact.js";

/**
 * @template T
 */
export class Shared {
  /** @param {T} value */
  constructor(value) {
    this.value = value;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }
  /** @param {T} value */
  set(value) {
    if (value === this.value) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener();
  }
  /** @param {(value: T) => T} change */
  update(change) { this.set(change(this.value)); }
}

/**
 * The value, and a new rendering whenever it changes.
 * @template T
 * @param {Shared<T>} shared
 * @returns {T}
 */
export function useShared(shared) {
  const [, render] = useState(0);
  useEffect(() => {
    const listener = () => render((/** @type {number} */ n) => n + 1);
    shared.listeners.add(listener);
    listener();
    return () => { shared.listeners.delete(listener); };
  }, [shared]);
  return shared.value;
}

/**
 * @typedef {object} Session
 * @property {boolean} admin
 * @property {"read" | "operate" | "own" | null} adminRole
 * @property {number | null} adminExpiresAt
 * @property {{id: string, userID: string, expiresAt: number, permissions: any}[]} databases
 * @property {boolean} local
 * @property {string} version
 */

/** Whoever is signed in; null until the server has said so. @type {Shared<Session | null>} */
export const session = new Shared(/** @type {Session | null} */ (null));

const ROLES = ["read", "operate", "own"];

/** Whether the administrator who is signed in has a role, or a greater one. @param {"read" | "operate" | "own"} role */
export function mayAdmin(role) {
  const own = session.value?.admin ? session.value.adminRole ?? "own" : null;
  return own !== null && ROLES.indexOf(own) >= ROLES.indexOf(role);
}

/** Whether contents of a database may be seen: with a credential for it, or one that may make such a credential. @param {string | null} database */
export function mayOpen(database) {
  return mayAdmin("own") || (session.value?.databases.some(({ id }) => id === database) ?? false);
}

/** Whether anything may be read, in a collection or in any. @param {string} database @param {string | null} [collection] */
export function mayRead(database, collection = null) {
  const found = session.value?.databases.find(({ id }) => id === database);
  if (!found) return mayAdmin("own");
  const rules = found.permissions?.read;
  const byCollection = rules?.queriesByCollection ?? {};
  return rules?.everything === true || (collection === null ? Object.keys(byCollection).length > 0 : Object.hasOwn(byCollection, collection));
}

/** What a grant allows, in words. @param {any} grant */
export function grantText(grant) {
  const side = (/** @type {any} */ rules) => rules?.everything ? "everything" : Object.keys(rules?.queriesByCollection ?? {}).join(", ") || "nothing";
  return `reads ${side(grant?.read)}; writes ${side(grant?.write)}`;
}

/** The rights for a database, in words. @param {string | null} database */
export function ownRights(database) {
  const found = session.value?.databases.find(({ id }) => id === database);
  return found ? grantText(found.permissions) : null;
}

/** Whether anything may be written, in a collection or in any. @param {string} database @param {string | null} [collection] */
export function mayWrite(database, collection = null) {
  const found = session.value?.databases.find(({ id }) => id === database);
  if (!found) return mayAdmin("own");
  const rules = found.permissions?.write;
  const byCollection = rules?.queriesByCollection ?? {};
  return rules?.everything === true || (collection === null ? Object.keys(byCollection).length > 0 : Object.hasOwn(byCollection, collection));
}

/** True while a credential is needed that is no longer there; the page stays as it is. */
export const signInAgain = new Shared(/** @type {null | {admin: boolean, database: string | null, isMore?: boolean}} */ (null));

/** True while the server does not answer. */
export const isAway = new Shared(false);

/** The latest calls, for `curl`. @type {Shared<{method: string, path: string, body: string | null, at: number}[]>} */
export const calls = new Shared(/** @type {any[]} */ ([]));

/** Short notes that go by themselves, some with a way back. @type {Shared<any[]>} */
export const notes = new Shared(/** @type {any[]} */ ([]));
let noteNumber = 0;

/**
 * Shows a note for some seconds.
 * @param {string} text
 * @param {{undo?: () => Promise<void>}} [options]
 */
export function note(text, options = {}) {
  noteNumber += 1;
  const number = noteNumber;
  notes.update((all) => [...all.slice(-3), { number, text, ...options }]);
  setTimeout(() => dropNote(number), options.undo ? 15_000 : 4000);
}

/** @param {number} number */
export function dropNote(number) { notes.update((all) => all.filter((item) => item.number !== number)); }

// What this browser keeps: settings and statements, never a credential.

/** @template T @param {string} name @param {T} otherwise @returns {T} */
export function kept(name, otherwise) {
  try {
    const text = localStorage.getItem(`mimeo.${name}`);
    return text === null ? otherwise : JSON.parse(text);
  } catch { return otherwise; }
}

/** @param {string} name @param {any} value */
export function keep(name, value) {
  try { localStorage.setItem(`mimeo.${name}`, JSON.stringify(value)); } catch { /* A full or closed storage loses only this. */ }
}

/** Names that this browser has for databases, by their ids. @type {Shared<Record<string, string>>} */
export const titles = new Shared(kept("titles", /** @type {Record<string, string>} */ ({})));

/** The name of a database; its id where it has none. @param {string} database */
export function titleOf(database) { return Object.hasOwn(titles.value, database) ? titles.value[database] : database; }

/** Gives a database a name in this browser; an empty one takes it away. @param {string} database @param {string} title */
export function rename(database, title) {
  const { [database]: _, ...others } = titles.value;
  titles.set(title.trim() ? { ...others, [database]: title.trim() } : others);
  keep("titles", titles.value);
}

/** "auto", "light" or "dark". @type {Shared<string>} */
export const theme = new Shared(kept("theme", "auto"));

export function applyTheme() { document.documentElement.dataset.theme = theme.value; }
