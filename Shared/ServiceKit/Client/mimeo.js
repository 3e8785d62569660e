// @ts-check
/**
 * Mimeo's client for browsers, Node and Deno: one module without dependencies.
 *
 *     import { Mimeo } from "/mimeo.js";
 *     const db = new Mimeo({ database: "…", token: "…" });
 *     await db.execute("INSERT INTO cars DOCUMENTS (:car)", { car: { _id: "a", color: "red" } });
 *     for await (const { rows } of db.observe("SELECT * FROM cars")) console.log(rows);
 *
 * Whole numbers beyond 2^53 lose digits in JavaScript's own JSON; pass `parse` to read them otherwise.
 *
 * @module
 */

/**
 * @typedef {object} Options
 * @property {string} [url] The server's origin; without it the one that served this module.
 * @property {string} [database] The database; needed for a login.
 * @property {string} [provider] The login provider; "development" unless said.
 * @property {string | (() => string | Promise<string>)} [token] The provider's token, or a function that gives
 *   one; called for each login, so also for each renewal.
 * @property {string} [apiKey] An API key instead of a login.
 * @property {typeof fetch} [fetch] Another fetch.
 * @property {(text: string) => any} [parse] Another reader of JSON.
 */

/**
 * @typedef {object} Result
 * @property {any[]} items The rows.
 * @property {number} transactionId The log's offset after the statement.
 * @property {string} queryType
 * @property {any[]} mutatedDocumentIds
 * @property {{code?: string, description: string}[]} warnings
 */

/**
 * @typedef {object} Observed
 * @property {any[]} rows All rows, as they are now.
 * @property {number} transactionId The log's offset of these rows.
 * @property {number[]} insertions Indexes in the new rows; all of them for a first or fresh result.
 * @property {number[]} deletions Indexes in the old rows.
 * @property {number[]} updates Indexes in the new rows.
 * @property {[number, number][]} moves Pairs of an old and a new index.
 * @property {string[]} warnings Numbers that JSON cannot hold: null stands in their place.
 */

/**
 * @typedef {object} Change
 * @property {number} transactionId
 * @property {string} collection
 * @property {any} id
 * @property {"insert" | "update" | "remove" | "snapshot"} method
 * @property {any} [value] The new value; null after a removal.
 * @property {any} [oldValue]
 * @property {string[]} [changed] The paths that differ.
 * @property {FieldChange[]} [changes] With values "changes": the fields that differ.
 * @property {string[]} [warnings] Numbers that JSON cannot hold: null stands in their place.
 * @property {string} [time]
 * @property {boolean} [last] True in the last line of its operation.
 */

/**
 * @typedef {object} FieldChange
 * @property {string[]} path Empty for the document itself.
 * @property {"added" | "changed" | "removed"} action
 * @property {"register" | "map" | "counter" | "attachment"} kind
 * @property {any} [old]
 * @property {any} [new]
 * @property {boolean} [oldHidden] True if another kind showed before.
 * @property {boolean} [newHidden] True if another kind shows now.
 */

/**
 * @typedef {object} ChangeEvent
 * @property {number[]} insertions Indexes in the new rows.
 * @property {number[]} deletions Indexes in the old rows.
 * @property {[number, number][]} moves Pairs of an old and a new index.
 * @property {[number, any][]} rows Pairs of a new index and the row that was inserted or updated.
 */

/**
 * @typedef {object} Connection
 * @property {boolean} open False from a cut until the stream is open again.
 * @property {any} error Why it was cut; null if it ended, as at a server that stops.
 * @property {number} retryMs The pause before it is opened again.
 */

/**
 * @typedef {object} Feed
 * @property {number | string} [since] An offset, a time, "now" or "snapshot"; 0 unless said.
 * @property {number | string} [until] The last offset, or a time.
 * @property {string | string[]} [collection] One collection or several; all unless said.
 * @property {string} [where] A condition of DQL.
 * @property {"new" | "both" | "none" | "changes"} [values] The values in a change; "new" unless said.
 * @property {boolean} [follow] Go on with what comes.
 * @property {AbortSignal} [signal]
 * @property {(state: Connection) => void} [onConnection] As for observe.
 */

/** @typedef {string | [string, Record<string, any>?] | {statement: string, args?: Record<string, any>}} Statement */

/** The silence after which a stream counts as cut: the server says that it is alive every 15 s. */
const SILENCE_MS = 45_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** A token is renewed when so much of its time is left. */
const RENEWAL_MS = 30_000;

/** The kinds of empty objects that JSON holds. */
const PLAIN = ["Object", "Array", "Number", "String", "Boolean"];

/** An error of the server, or of the way to it. */
export class MimeoError extends Error {
  /**
   * @param {string} code Stable, like "DQL-0105"; "NETWORK" when no answer came, "ARGUMENT" for a value that JSON
   *   has no form for.
   * @param {string} message
   * @param {number} [status] The status of the answer.
   * @param {any} [details] The whole error of the answer.
   */
  constructor(code, message, status = 0, details = {}) {
    super(message);
    this.name = "MimeoError";
    this.code = code;
    this.status = status;
    this.details = details;
  }
}

/** A database on a server. */
export class Mimeo {
  #options;
  #origin;
  #fetch;
  #parse;
  /** @type {string | null} */
  #bearer;
  #bearerEnds = Infinity;
  /** @type {Promise<void> | null} */
  #login = null;

  /** @param {Options} options */
  constructor(options) {
    this.#options = options;
    const url = options.url ?? servedFrom();
    if (!url) throw new TypeError("Mimeo needs url: this module was read from a file, not from a server");
    this.#origin = url.replace(/\/$/, "");
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.#parse = options.parse ?? JSON.parse;
    this.#bearer = options.apiKey ?? null;
    if (!options.apiKey && (!options.database || options.token === undefined)) {
      throw new TypeError("Mimeo needs database and token, or apiKey");
    }
  }

  /**
   * Logs in. Called by itself before the first request, and again before the token ends.
   * @returns {Promise<void>}
   */
  async login() {
    if (this.#options.apiKey) return;
    // One login for all requests that need it at the same time.
    this.#login ??= this.#logIn().finally(() => { this.#login = null; });
    await this.#login;
  }

  async #logIn() {
    const { database, provider = "development", token } = this.#options;
    const text = typeof token === "function" ? await token() : token;
    const response = await this.#send("/_ditto/auth/login", {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ databaseID: database, provider, token: text }),
    });
    const answer = await this.#answer(response);
    this.#bearer = answer.accessToken;
    this.#bearerEnds = Date.now() + answer.expiresIn * 1000;
  }

  /**
   * Executes a statement.
   * @param {string} statement DQL.
   * @param {Record<string, any>} [args] Its arguments by name.
   * @param {{asOf?: number | string, after?: number, strict?: boolean, signal?: AbortSignal}} [options]
   *   asOf: an offset or a time that is read; after: the oldest offset that may answer.
   * @returns {Promise<Result>}
   */
  async execute(statement, args = {}, options = {}) {
    /** @type {Record<string, any>} */
    const body = { statement, args };
    if (options.asOf !== undefined) body.asOf = options.asOf;
    /** @type {Record<string, string>} */
    const headers = options.after === undefined ? {} : { "X-DITTO-TXN-ID": String(options.after) };
    const path = `/api/${options.strict ? "v4" : "v5"}/store/execute`;
    return this.#answer(await this.#post(path, body, headers, options.signal));
  }

  /**
   * Executes statements as one: all or nothing, and each sees those before it. An error has the place of its
   * statement in `details.index`.
   * @param {Statement[]} statements
   *   Up to 1,000, each a text, a pair of text and arguments, or an object of both.
   * @param {{key?: string, after?: number, strict?: boolean, signal?: AbortSignal}} [options]
   *   key: names the transaction, so that it may be sent again and is done once.
   * @returns {Promise<{transactionId: number, results: Result[]}>}
   */
  async transaction(statements, options = {}) {
    const transaction = statements.map((one) => {
      if (typeof one === "string") return { statement: one };
      return Array.isArray(one) ? { statement: one[0], args: one[1] ?? {} } : one;
    });
    /** @type {Record<string, string>} */
    const headers = {};
    if (options.after !== undefined) headers["X-DITTO-TXN-ID"] = String(options.after);
    if (options.key !== undefined) headers["Idempotency-Key"] = options.key;
    const path = `/api/${options.strict ? "v4" : "v5"}/store/execute`;
    return this.#answer(await this.#post(path, { transaction }, headers, options.signal));
  }

  /**
   * Follows a SELECT: the rows now, and again after each change of them. A cut stream is opened again where it
   * was cut. Leave the loop, or abort the signal, to end it.
   * @param {string} statement A SELECT.
   * @param {Record<string, any>} [args]
   * @param {{signal?: AbortSignal, onConnection?: (state: Connection) => void}} [options]
   *   onConnection: called when the stream is open, and when it is cut and will be opened again.
   * @returns {AsyncGenerator<Observed, void, void>}
   */
  async *observe(statement, args = {}, options = {}) {
    /** @type {any[]} */
    let rows = [];
    /** @type {any[]} */
    let parts = [];
    /** @type {string[]} */
    let told = [];
    /** @type {number | undefined} */
    let offset;
    const open = (/** @type {AbortSignal} */ signal) => {
      [parts, told] = [[], []];
      /** @type {Record<string, string>} */
      const headers = { Accept: "application/x-ndjson" };
      if (offset !== undefined) headers["Last-Event-ID"] = String(offset);
      return this.#post("/api/v5/store/observe", { statement, args }, headers, signal);
    };
    for await (const event of this.#lines(open, true, options)) {
      if (event.event === "result") {
        parts.push(...event.items);
        told.push(...(event.warnings ?? []));
        if (event.more) continue;
        const [old, warnings] = [rows, told];
        [rows, parts, told, offset] = [parts, [], [], event.transactionId];
        yield {
          rows, transactionId: event.transactionId, insertions: [...rows.keys()],
          deletions: [...old.keys()], updates: [], moves: [], warnings,
        };
      } else if (event.event === "change") {
        rows = applied(rows, event);
        offset = event.transactionId;
        const { insertions, deletions, updates, moves, warnings = [] } = event;
        yield { rows, transactionId: event.transactionId, insertions, deletions, updates, moves, warnings };
      } else if (event.event === "current") {
        offset = event.transactionId;
      }
    }
  }

  /**
   * Reads the changes of documents from the log. Whole operations only: one that was cut comes again.
   * @param {Feed} [options]
   * @returns {AsyncGenerator<Change, void, void>}
   */
  async *changes(options = {}) {
    let since = options.since ?? 0;
    /** @type {Change[]} */
    let held = [];
    const open = (/** @type {AbortSignal} */ signal) => {
      held = [];
      const query = new URLSearchParams({ since: String(since) });
      for (const name of [options.collection ?? []].flat()) query.append("collection", name);
      if (options.until !== undefined) query.set("until", String(options.until));
      if (options.where !== undefined) query.set("where", options.where);
      if (options.values !== undefined) query.set("values", options.values);
      if (options.follow) query.set("feed", "continuous");
      return this.#get(`/api/v5/changes?${query}`, { Accept: "application/x-ndjson" }, signal);
    };
    const goesOn = (options.follow ?? false) && options.until === undefined;
    for await (const line of this.#lines(open, goesOn, options)) {
      held.push(line);
      if (!line.last && line.method !== "snapshot") continue;
      const whole = held;
      held = [];
      if (line.last) since = line.transactionId;
      for (const one of whole) yield one;
    }
  }

  /**
   * What happened to a document, newest first.
   * @param {string} collection
   * @param {any} id
   * @param {{before?: number, limit?: number, at?: number | string, signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  async history(collection, id, options = {}) {
    const query = new URLSearchParams();
    for (const name of /** @type {const} */ (["before", "limit", "at"])) {
      if (options[name] !== undefined) query.set(name, String(options[name]));
    }
    const path = `/api/v5/history/${pathName(collection)}/${pathID(id)}?${query}`;
    return this.#answer(await this.#get(path, {}, options.signal));
  }

  /**
   * Stores a file.
   * @param {Blob | ArrayBuffer | Uint8Array | string} content
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<{id: string, len: number}>} The id and length, for an attachment token.
   */
  async upload(content, options = {}) {
    const response = await this.#authorized("/api/v5/attachments/upload", {
      method: "POST", headers: { "Content-Type": "application/octet-stream" },
      body: /** @type {BodyInit} */ (content), signal: options.signal,
    });
    return this.#answer(response);
  }

  /**
   * Fetches a file.
   * @param {string} id
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<Blob>}
   */
  async download(id, options = {}) {
    const response = await this.#get(
      `/api/v5/attachments/${encodeURIComponent(id)}`, {}, options.signal);
    if (!response.ok) await this.#answer(response);
    return response.blob();
  }

  /**
   * URLs that open attachments without a token for a while, as in `<img src>`: whoever has one may use it. With
   * `&filename=…` behind it a file is saved.
   * @param {string[]} ids At most 100.
   * @param {{seconds?: number, signal?: AbortSignal}} [options] 300 seconds unless said, 3,600 at most.
   * @returns {Promise<string[]>} In the order of the ids.
   */
  async attachmentURLs(ids, options = {}) {
    const response = await this.#post(
      "/_ditto/auth/attachment-urls", { ids, seconds: options.seconds }, {}, options.signal);
    const { urls } = await this.#answer(response);
    return urls.map((/** @type {{url: string}} */ one) => this.#origin + one.url);
  }

  // Requests

  /**
   * @param {string} path
   * @param {any} body
   * @param {Record<string, string>} headers
   * @param {AbortSignal} [signal]
   */
  #post(path, body, headers, signal) {
    return this.#authorized(path, {
      method: "POST", headers: { "Content-Type": "application/json", ...headers },
      body: jsonText(body), signal,
    });
  }

  /**
   * @param {string} path
   * @param {Record<string, string>} headers
   * @param {AbortSignal} [signal]
   */
  #get(path, headers, signal) {
    return this.#authorized(path, { headers, signal });
  }

  /**
   * Sends a request with the token, and once more with a new one if it is refused: it was not executed.
   * @param {string} path
   * @param {RequestInit} init
   * @returns {Promise<Response>}
   */
  async #authorized(path, init) {
    if (this.#bearer === null || Date.now() > this.#bearerEnds - RENEWAL_MS) await this.login();
    const send = () => this.#send(
      path, { ...init, headers: { ...init.headers, Authorization: `Bearer ${this.#bearer}` } });
    const response = await send();
    if (response.status !== 401 || this.#options.apiKey) return response;
    await response.body?.cancel();
    await this.login();
    return send();
  }

  /**
   * @param {string} path
   * @param {RequestInit} init
   * @returns {Promise<Response>}
   */
  async #send(path, init) {
    try {
      return await this.#fetch(this.#origin + path, { cache: "no-store", ...init });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw new MimeoError("NETWORK", `${this.#origin} cannot be reached: ${error}`);
    }
  }

  /**
   * The JSON of an answer.
   * @param {Response} response
   * @returns {Promise<any>}
   */
  async #answer(response) {
    const text = await response.text();
    let body;
    try {
      body = this.#parse(text);
    } catch {
      throw new MimeoError("NETWORK", "the answer is not JSON", response.status);
    }
    if (response.ok) return body;
    throw failure(body?.error ?? {}, response.status);
  }

  // Streams

  /**
   * The JSON lines of a stream that is opened again where it was cut.
   * @param {(signal: AbortSignal) => Promise<Response>} open Opens it at the place to go on.
   * @param {boolean} goesOn True if an end without a reason is a cut.
   * @param {{signal?: AbortSignal, onConnection?: (state: Connection) => void}} options
   * @returns {AsyncGenerator<any, void, void>}
   */
  async *#lines(open, goesOn, { signal, onConnection }) {
    let pause = FIRST_PAUSE_MS;
    let isFirst = true;
    while (!signal?.aborted) {
      let cut = null;
      const connection = new AbortController();
      const abort = () => connection.abort(signal?.reason);
      signal?.addEventListener("abort", abort, { once: true });
      try {
        const response = await open(connection.signal);
        if (!response.ok) await this.#answer(response);
        isFirst = false;
        pause = FIRST_PAUSE_MS;
        onConnection?.({ open: true, error: null, retryMs: 0 });
        for await (const text of textLines(response, connection)) {
          const line = this.#parse(text);
          if (line.error && !line.method) throw failure(line.error, 0);
          yield line;
        }
        if (!goesOn) return;
      } catch (error) {
        if (signal?.aborted) return;
        // The first connection must succeed; later ones outlast servers that restart and networks that break.
        if (isFirst || (error instanceof MimeoError && !isPassing(error))) throw error;
        cut = error;
      } finally {
        signal?.removeEventListener("abort", abort);
        connection.abort();
      }
      onConnection?.({ open: false, error: cut, retryMs: pause });
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }
}

/**
 * The JSON of a request. `JSON.stringify` itself would send null or {} for a value that JSON has no form for, and
 * that would be stored. Members that are undefined are left out, as it does.
 * @param {any} body
 * @returns {string}
 */
function jsonText(body) {
  return JSON.stringify(body, function (name, value) {
    const kind = Object.prototype.toString.call(value).slice(8, -1);
    const isEmpty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
    const wrong = typeof value === "number" && !Number.isFinite(value) ? String(value)
      : this[name] instanceof Date && value === null ? "an invalid date"
      : Array.isArray(this) && ["undefined", "function", "symbol"].includes(typeof value) ? typeof value
      : ArrayBuffer.isView(value) || typeof value === "bigint" || (isEmpty && !PLAIN.includes(kind)) ? `a ${kind}`
      : null;
    if (wrong) throw new MimeoError("ARGUMENT", `${name} is ${wrong}, which JSON cannot hold`);
    return value;
  });
}

/** The origin that served this module; undefined where it was read from a file. */
function servedFrom() {
  const { protocol, origin } = new URL(import.meta.url);
  return /^https?:$/.test(protocol) ? origin : undefined;
}

/**
 * A collection's name in a path. In back quotes where a browser would take it for a step of the path.
 * @param {string} name
 * @returns {string}
 */
export function pathName(name) {
  return encodeURIComponent(/^\.{1,2}$|^`/.test(name) ? `\`${name.replaceAll("`", "``")}\`` : name);
}

/**
 * A document's id in a path. A text that looks like JSON, or like a step of the path, is written as JSON.
 * @param {any} id
 * @returns {string}
 */
export function pathID(id) {
  return encodeURIComponent(typeof id === "string" && !/^$|^\.{1,2}$|^[{["0-9\-tf]/.test(id) ? id : JSON.stringify(id));
}

/**
 * The lines of a body that are not empty. A silence of more than `SILENCE_MS` aborts the connection.
 * @param {Response} response
 * @param {AbortController} connection
 * @returns {AsyncGenerator<string, void, void>}
 */
async function* textLines(response, connection) {
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let watch;
  let rest = "";
  try {
    for (;;) {
      watch = setTimeout(() => connection.abort(), SILENCE_MS);
      const { done, value } = await reader.read();
      clearTimeout(watch);
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line) yield line;
    }
  } finally {
    clearTimeout(watch);
    reader.cancel().catch(() => {});
  }
}

/**
 * The rows after a `change` event of a live query, as a new array. Needed by who reads the stream without `observe`.
 * @param {any[]} rows The rows before it.
 * @param {ChangeEvent} change
 * @returns {any[]}
 */
export function applied(rows, change) {
  const given = new Map(change.rows);
  const inserted = new Set(change.insertions);
  const arrivals = new Map(change.moves.map(([from, to]) => [to, rows[from]]));
  const gone = new Set([...change.deletions, ...change.moves.map(([from]) => from)]);
  const rest = rows.filter((_, index) => !gone.has(index));
  const count = rows.length - change.deletions.length + change.insertions.length;
  let next = 0;
  return Array.from({ length: count }, (_, place) => {
    const kept = inserted.has(place) ? undefined : arrivals.has(place) ? arrivals.get(place) : rest[next++];
    return given.has(place) ? given.get(place) : kept;
  });
}

/**
 * @param {any} error
 * @param {number} status
 */
function failure(error, status) {
  const message = error.message ?? error.description ?? `the server answered with status ${status}`;
  return new MimeoError(error.code ?? `HTTP-${status}`, message, status, error);
}

/**
 * Whether the same request may succeed a moment later: the token is over, the service stops, or it is overloaded.
 * @param {MimeoError} error
 */
function isPassing(error) {
  return error.code === "NETWORK" || error.code.startsWith("AUTH-01") || error.code === "QUERY-0304"
    || error.status === 429 || error.status >= 500;
}
