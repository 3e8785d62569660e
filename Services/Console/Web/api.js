// @ts-check
/**
 * Calls of the server. Every one is a documented HTTP call; the cookie stands in for the credential, and the
 * field `X-Mimeo-Console` says that the console sends it, and for which database.
 */

import { Mimeo } from "/mimeo.js";
import { parse, print } from "./exact.js";
import { calls, isAway, session, signInAgain } from "./store.js";

/** An error of a call, with all that a person needs to tell it to others. */
export class CallError extends Error {
  /** @param {string} code @param {string} message @param {number} status @param {any} [details] @param {string | null} [requestID] */
  constructor(code, message, status, details = {}, requestID = null) {
    super(message);
    this.code = code;
    this.status = status;
    this.details = details;
    this.requestID = requestID;
  }
}

/**
 * @typedef {object} Options
 * @property {any} [body] Sent as JSON, without loss.
 * @property {string | null} [database] The database of the call; none for /admin.
 * @property {string} [bearer] A credential that goes before the cookie.
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 * @property {boolean} [asks] False for a call whose refusal is no end of the session.
 * @property {boolean} [quiet] True for a call that the page repeats by itself: it is not listed.
 */

/** @param {string} method @param {string} path @param {string | null} body */
function remember(method, path, body) {
  calls.update((all) => [{ method, path, body, at: Date.now() }, ...all].slice(0, 40));
}

/** Time for which the page computes before it lets the browser draw and take keys. */
const BUSY_MS = 8;
let rested = 0;

/** Lets the browser draw and take keys, if the page has computed for long: for loops over many rows. */
export async function breath() {
  if (performance.now() - rested < BUSY_MS) return;
  const { scheduler } = /** @type {any} */ (globalThis);
  await (scheduler?.yield ? scheduler.yield() : new Promise((resolve) => { setTimeout(resolve, 0); }));
  rested = performance.now();
}

/** The call that the clients of streams use. @param {string} database @param {boolean} [quiet] @returns {typeof fetch} */
function consoleFetch(database, quiet = false) {
  return async (input, init = {}) => {
    const headers = new Headers(init.headers);
    headers.delete("Authorization");
    headers.set("X-Mimeo-Console", database);
    const path = new URL(String(input), location.href).pathname + new URL(String(input), location.href).search;
    if (!quiet) remember(init.method ?? "GET", path, typeof init.body === "string" ? init.body : null);
    let response;
    try {
      response = await fetch(input, { ...init, headers, credentials: "same-origin" });
    } catch (error) {
      if (!init.signal?.aborted) isAway.set(true);
      throw error;
    }
    if (response.status === 401) askAgain(path, database);
    isAway.set(false);
    return response;
  };
}

/** A client of a database for streams, histories and files. @param {string} database */
export function client(database) {
  return new Mimeo({ apiKey: "cookie", url: location.origin, fetch: consoleFetch(database), parse });
}

/** @param {string} path @param {string | null} database */
function askAgain(path, database) {
  if (path.startsWith("/admin/console/")) return;
  const isAdmin = path.startsWith("/admin/");
  signInAgain.set({ admin: isAdmin, database: isAdmin ? null : database });
}

/**
 * Sends a call and reads its answer.
 * @param {string} method @param {string} path @param {Options} [options] @returns {Promise<any>}
 */
export async function call(method, path, options = {}) {
  const body = options.body === undefined ? null : print(options.body);
  if (!options.quiet) remember(method, path, body);
  /** @type {Record<string, string>} */
  const headers = { "X-Mimeo-Console": options.database ?? "-", ...options.headers };
  if (body !== null) headers["Content-Type"] = "application/json";
  if (options.bearer) headers.Authorization = `Bearer ${options.bearer}`;
  let response;
  try {
    response = await fetch(path, {
      method, headers, body, signal: options.signal, credentials: "same-origin", cache: "no-store",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    isAway.set(true);
    throw new CallError("NETWORK", "the server does not answer", 0);
  }
  isAway.set(false);
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? parse(text) : null;
  } catch {
    if (response.ok) throw new CallError("ANSWER", "the answer is no JSON", response.status);
  }
  if (response.ok) return answer;
  if (response.status === 401 && !options.bearer && options.asks !== false) askAgain(path, options.database ?? null);
  throw failure(answer, response);
}

/** The JSON of a text; null if it is none. @param {string} text */
function readable(text) {
  try { return parse(text); } catch { return null; }
}

/** The error of an answer. @param {any} answer @param {Response} response */
function failure(answer, response) {
  const error = answer?.error ?? {};
  return new CallError(
    error.code ?? `HTTP-${response.status}`,
    error.message ?? error.description ?? `the server answered with status ${response.status}`,
    response.status, error, response.headers.get("X-Request-ID"));
}

/**
 * Executes a statement.
 * @param {string} database @param {string} statement @param {Record<string, any>} [args]
 * @param {{asOf?: string | number | null, signal?: AbortSignal, quiet?: boolean}} [options]
 * @returns {Promise<any>} The envelope.
 */
export function execute(database, statement, args = {}, options = {}) {
  /** @type {Record<string, any>} */
  const body = { statement, args };
  if (options.asOf !== undefined && options.asOf !== null && options.asOf !== "") body.asOf = options.asOf;
  return call("POST", "/api/v5/store/execute", { database, body, signal: options.signal, quiet: options.quiet });
}

/**
 * Executes a statement: its rows as they come, and at last the envelope. Whoever leaves the loop cancels the
 * statement: the server need not find the other rows.
 * @param {string} database @param {string} statement @param {Record<string, any>} args
 * @param {{asOf?: string | number | null, signal: AbortSignal, quiet?: boolean}} options
 * @returns {AsyncGenerator<any, any>}
 */
export async function* streamRows(database, statement, args, { asOf, signal, quiet }) {
  /** @type {Record<string, any>} */
  const body = { statement, args };
  if (asOf !== undefined && asOf !== null && asOf !== "") body.asOf = asOf;
  const stop = new AbortController();
  const abort = () => stop.abort();
  signal.addEventListener("abort", abort, { once: true });
  try {
    const response = await consoleFetch(database, quiet)("/api/v5/store/execute", {
      method: "POST", headers: { "Content-Type": "application/json", Accept: "application/x-ndjson" },
      body: print(body), cache: "no-store", signal: stop.signal,
    }).catch((error) => {
      if (signal.aborted) throw error;
      throw new CallError("NETWORK", "the server does not answer", 0);
    });
    if (!response.ok) throw failure(readable(await response.text()), response);
    // The last line is the envelope, so each line is a row once another one follows it.
    let last = null;
    for await (const line of lines(response, signal)) {
      if (last !== null) yield parse(last);
      last = line;
      await breath();
    }
    const envelope = readable(last ?? "");
    if (envelope?.queryType === undefined) throw new CallError("ANSWER", "the answer ended before its last line", response.status);
    if (envelope.error?.code) throw failure(envelope, response);
    return envelope;
  } finally {
    signal.removeEventListener("abort", abort);
    stop.abort();
  }
}

/**
 * Executes a statement and keeps so many of its rows.
 * @param {string} database @param {string} statement @param {Record<string, any>} args
 * @param {{most: number, isWhole?: boolean, asOf?: string | number | null, signal: AbortSignal, quiet?: boolean, told?: (count: number) => void}} options
 *   isWhole: reads the answer to its end, else it stops at the first row that is not kept; told: called with the
 *   number of rows so far.
 * @returns {Promise<{rows: any[], count: number, last: any, envelope: any}>} `last` is the last row that was read.
 *   The envelope is null if there are more rows, of which nothing is known.
 */
export async function executeRows(database, statement, args, { most, isWhole, told, ...options }) {
  const rows = [];
  const stream = streamRows(database, statement, args, options);
  let [count, last] = [0, /** @type {any} */ (undefined)];
  for (;;) {
    const { value, done } = await stream.next();
    if (done) return { rows, count, last, envelope: value };
    if (count >= most && !isWhole) {
      await stream.return(null);
      return { rows, count, last, envelope: null };
    }
    if (count < most) rows.push(value);
    last = value;
    count += 1;
    if (count % 1000 === 0) told?.(count);
  }
}

/** The lines of an answer that are not empty. @param {Response} response @param {AbortSignal} signal @returns {AsyncGenerator<string>} */
async function* lines(response, signal) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      if (signal.aborted) throw error;
      throw new CallError("NETWORK", "the answer broke off before its end", 0);
    });
    const parts = (rest + decoder.decode(value, { stream: !done })).split("\n");
    rest = done ? "" : parts.pop() ?? "";
    yield* parts.filter(Boolean);
    if (done) return;
  }
}

/** @type {Promise<any> | null} */
let description = null;

/** Whether the server has a route, by its own description. @param {string} path As OpenAPI writes it. */
export async function serves(path) {
  description ??= call("GET", "/api/v5/openapi.json", { quiet: true }).catch((error) => { description = null; throw error; });
  return path in ((await description).paths ?? {});
}

/** Asks who is signed in. */
export async function refreshSession() { session.set(await call("GET", "/admin/console/session", { quiet: true })); }

/** Signs in with a credential. @param {string} bearer */
export async function signIn(bearer) {
  session.set(await call("POST", "/admin/console/session", { bearer, body: {} }));
  signInAgain.set(null);
}

/** Signs in as the owner of this machine's server. */
export async function signInLocally() {
  session.set(await call("POST", "/admin/console/session", { body: { local: true } }));
  signInAgain.set(null);
}

/** @param {string} database @param {string} provider @param {string} token */
export async function logIn(database, provider, token) {
  const answer = await call("POST", "/_ditto/auth/login", { asks: false, body: { databaseID: database, provider, token } });
  await signIn(answer.accessToken);
}

/**
 * Makes sure that the session may use a database. An administrator gets an API key of his own for it, which
 * ends with the session.
 * @param {string} database
 */
export async function openDatabase(database) {
  const found = session.value?.databases.find((one) => one.id === database);
  if (found && found.expiresAt * 1000 > Date.now()) return;
  if (!session.value?.admin) return;
  const everything = { read: { everything: true }, write: { everything: true } };
  const path = `/admin/auth/databases/${encodeURIComponent(database)}/api-keys`;
  const expiresAt = session.value.adminExpiresAt ?? Math.floor(Date.now() / 1000) + 3600;
  const key = await call("POST", path, { body: { name: "console", permissions: everything, expiresAt } });
  await signIn(key.key);
}

/** Ends the session of one database, and the look that an administrator takes as somebody else. @param {string} database */
export async function leaveDatabase(database) {
  session.set(await call("DELETE", `/admin/console/session?database=${encodeURIComponent(database)}`));
}

/** Ends the session: removes the keys that it has made, then the cookies. */
export async function signOut() {
  for (const { id, userID } of session.value?.databases ?? []) {
    if (userID !== "api-key:console" || !session.value?.admin) continue;
    const path = `/admin/auth/databases/${encodeURIComponent(id)}/api-keys`;
    try {
      const { apiKeys } = await call("GET", path, { quiet: true });
      const ends = session.value.databases.find((one) => one.id === id)?.expiresAt;
      const own = apiKeys.find((/** @type {any} */ key) => key.name === "console" && key.expiresAt === ends);
      if (own) await call("DELETE", `${path}/${encodeURIComponent(own.id)}`);
    } catch { /* It ends by itself. */ }
  }
  session.set(await call("DELETE", "/admin/console/session"));
}

/** A call as a command for a shell. @param {{method: string, path: string, body: string | null}} made */
export function curl(made) {
  const quoted = (/** @type {string} */ text) => `'${text.replaceAll("'", "'\\''")}'`;
  const method = made.method === "GET" ? "" : ` -X ${made.method}`;
  const body = made.body === null ? ""
    : ` \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(made.body)}`;
  const credential = made.path.startsWith("/admin/") ? "$ADMIN" : "$TOKEN";
  return `curl${method} ${quoted(location.origin + made.path)} \\\n  -H "Authorization: Bearer ${credential}"${body}`;
}
