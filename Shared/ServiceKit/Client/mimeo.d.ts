// Written by scripts/javascript-types from the comments in mimeo.js.

export interface Options {
  /** The server's origin; without it the one that served this module. */
  url?: string;
  /** The database; needed for a login. */
  database?: string;
  /** The login provider; "development" unless said. */
  provider?: string;
  /** The provider's token, or a function that gives one; called for each login, so also for each renewal. */
  token?: string | (() => string | Promise<string>);
  /** An API key instead of a login. */
  apiKey?: string;
  /** Another fetch. */
  fetch?: typeof fetch;
  /** Another reader of JSON. */
  parse?: (text: string) => any;
}

export interface Result {
  /** The rows. */
  items: any[];
  /** The log's offset after the statement. */
  transactionId: number;
  queryType: string;
  mutatedDocumentIds: any[];
  warnings: {code?: string, description: string}[];
}

export interface Observed {
  /** All rows, as they are now. */
  rows: any[];
  /** The log's offset of these rows. */
  transactionId: number;
  /** Indexes in the new rows; all of them for a first or fresh result. */
  insertions: number[];
  /** Indexes in the old rows. */
  deletions: number[];
  /** Indexes in the new rows. */
  updates: number[];
  /** Pairs of an old and a new index. */
  moves: [number, number][];
  /** Numbers that JSON cannot hold: null stands in their place. */
  warnings: string[];
}

export interface Change {
  transactionId: number;
  collection: string;
  id: any;
  method: "insert" | "update" | "remove" | "snapshot";
  /** The new value; null after a removal. */
  value?: any;
  oldValue?: any;
  /** The paths that differ. */
  changed?: string[];
  /** With values "changes": the fields that differ. */
  changes?: FieldChange[];
  /** Numbers that JSON cannot hold: null stands in their place. */
  warnings?: string[];
  time?: string;
  /** True in the last line of its operation. */
  last?: boolean;
}

export interface FieldChange {
  /** Empty for the document itself. */
  path: string[];
  action: "added" | "changed" | "removed";
  kind: "register" | "map" | "counter" | "attachment";
  old?: any;
  new?: any;
  /** True if another kind showed before. */
  oldHidden?: boolean;
  /** True if another kind shows now. */
  newHidden?: boolean;
}

export interface ChangeEvent {
  /** Indexes in the new rows. */
  insertions: number[];
  /** Indexes in the old rows. */
  deletions: number[];
  /** Pairs of an old and a new index. */
  moves: [number, number][];
  /** Pairs of a new index and the row that was inserted or updated. */
  rows: [number, any][];
}

export interface Connection {
  /** False from a cut until the stream is open again. */
  open: boolean;
  /** Why it was cut; null if it ended, as at a server that stops. */
  error: any;
  /** The pause before it is opened again. */
  retryMs: number;
}

export interface Feed {
  /** An offset, a time, "now" or "snapshot"; 0 unless said. */
  since?: number | string;
  /** The last offset, or a time. */
  until?: number | string;
  /** One collection or several; all unless said. */
  collection?: string | string[];
  /** A condition of DQL. */
  where?: string;
  /** The values in a change; "new" unless said. */
  values?: "new" | "both" | "none" | "changes";
  /** Go on with what comes. */
  follow?: boolean;
  signal?: AbortSignal;
  /** As for observe. */
  onConnection?: (state: Connection) => void;
}

export type Statement = string | [string, Record<string, any>?] | {statement: string, args?: Record<string, any>};

/** An error of the server, or of the way to it. */
export class MimeoError extends Error {
  code: string;
  status: number;
  details: any;
  /**
   * @param code Stable, like "DQL-0105"; "NETWORK" when no answer came, "ARGUMENT" for a value that JSON has no form for.
   * @param status The status of the answer.
   * @param details The whole error of the answer.
   */
  constructor(code: string, message: string, status?: number, details?: any);
}

/** A database on a server. */
export class Mimeo {
  #private;
  constructor(options: Options);
  /** Logs in. Called by itself before the first request, and again before the token ends. */
  login(): Promise<void>;
  /**
   * Executes a statement.
   * @param statement DQL.
   * @param args Its arguments by name.
   * @param options asOf: an offset or a time that is read; after: the oldest offset that may answer.
   */
  execute(statement: string, args?: Record<string, any>, options?: {asOf?: number | string, after?: number, strict?: boolean, signal?: AbortSignal}): Promise<Result>;
  /**
   * Executes statements as one: all or nothing, and each sees those before it. An error has the place of its
   * statement in `details.index`.
   * @param statements Up to 1,000, each a text, a pair of text and arguments, or an object of both.
   * @param options key: names the transaction, so that it may be sent again and is done once.
   */
  transaction(statements: Statement[], options?: {key?: string, after?: number, strict?: boolean, signal?: AbortSignal}): Promise<{transactionId: number, results: Result[]}>;
  /**
   * Follows a SELECT: the rows now, and again after each change of them. A cut stream is opened again where it
   * was cut. Leave the loop, or abort the signal, to end it.
   * @param statement A SELECT.
   * @param options onConnection: called when the stream is open, and when it is cut and will be opened again.
   */
  observe(statement: string, args?: Record<string, any>, options?: {signal?: AbortSignal, onConnection?: (state: Connection) => void}): AsyncGenerator<Observed, void, void>;
  /** Reads the changes of documents from the log. Whole operations only: one that was cut comes again. */
  changes(options?: Feed): AsyncGenerator<Change, void, void>;
  /** What happened to a document, newest first. */
  history(collection: string, id: any, options?: {before?: number, limit?: number, at?: number | string, signal?: AbortSignal}): Promise<any>;
  /**
   * Stores a file.
   * @returns The id and length, for an attachment token.
   */
  upload(content: Blob | ArrayBuffer | Uint8Array | string, options?: {signal?: AbortSignal}): Promise<{id: string, len: number}>;
  /** Fetches a file. */
  download(id: string, options?: {signal?: AbortSignal}): Promise<Blob>;
  /**
   * URLs that open attachments without a token for a while, as in `<img src>`: whoever has one may use it. With
   * `&filename=…` behind it a file is saved.
   * @param ids At most 100.
   * @param options 300 seconds unless said, 3,600 at most.
   * @returns In the order of the ids.
   */
  attachmentURLs(ids: string[], options?: {seconds?: number, signal?: AbortSignal}): Promise<string[]>;
}

/** A collection's name in a path. In back quotes where a browser would take it for a step of the path. */
export function pathName(name: string): string;

/** A document's id in a path. A text that looks like JSON, or like a step of the path, is written as JSON. */
export function pathID(id: any): string;

/**
 * The rows after a `change` event of a live query, as a new array. Needed by who reads the stream without `observe`.
 * @param rows The rows before it.
 */
export function applied(rows: any[], change: ChangeEvent): any[];
