// @ts-check
/** The support bundle: what somebody needs to help with this server, as `mimeo support-bundle` collects it. */

import { html, useState } from "../vendor/preact.js";
import { CallError } from "../api.js";
import { note, session } from "../store.js";
import { parse } from "../exact.js";
import { save } from "./results.js";

const SERVICES = ["auth-gateway", "replicator", "query-service", "attachment-store"];
/** Files and the calls that they come from. @type {[string, string][]} */
const FILES = [
  ["health.json", "/health"], ["ready.json", "/health/ready"], ["metrics.txt", "/metrics"], ["settings.json", "/admin/settings"],
  ["log-databases.json", "/admin/replicator/databases"], ["projections.json", "/admin/query-service/databases"],
  ...SERVICES.flatMap((service) => /** @type {[string, string][]} */ ([[`${service}/health.json`, `/admin/${service}/health`],
    [`${service}/settings.json`, `/admin/${service}/settings`], [`${service}/log.txt`, `/admin/${service}/log-lines`]])),
];

/** The text of an answer, also of a failing one: that says what fails. @param {string} path */
async function text(path) {
  const response = await fetch(path, { headers: { "X-Mimeo-Console": "-" }, credentials: "same-origin", cache: "no-store" });
  if (response.status === 401) throw new CallError("HTTP-401", "the session has ended", 401);
  return response.text();
}

/** Files as a tar archive of the ustar format. @param {[string, string][]} files @returns {BlobPart[]} */
export function tar(files) {
  const bytes = new TextEncoder();
  const seconds = Math.floor(Date.now() / 1000);
  /** @type {BlobPart[]} */
  const parts = [];
  for (const [name, content] of files) {
    const body = bytes.encode(content);
    const head = new Uint8Array(512);
    const put = (/** @type {number} */ at, /** @type {string} */ value) => head.set(bytes.encode(value), at);
    const octal = (/** @type {number} */ number, /** @type {number} */ digits) => `${number.toString(8).padStart(digits, "0")}\0`;
    put(0, name);
    put(100, octal(0o600, 7));
    put(108, octal(0, 7));
    put(116, octal(0, 7));
    put(124, octal(body.length, 11));
    put(136, octal(seconds, 11));
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0" + "00");
    put(148, `${head.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0")}\0 `);
    parts.push(head, body, new Uint8Array((512 - body.length % 512) % 512));
  }
  return [...parts, new Uint8Array(1024)];
}

/** Collects the files of the bundle. */
export async function bundle() {
  /** @type {[string, string][]} */
  const files = [["version.txt", `mimeo ${session.value?.version}\n`]];
  for (const [name, path] of FILES) {
    let content = await text(path);
    if (name.endsWith("log.txt")) {
      try { content = parse(content).lines.map((/** @type {string} */ line) => `${line}\n`).join(""); } catch { /* As it is. */ }
    }
    files.push([name, content]);
  }
  return files;
}

export function Bundle() {
  const [isBusy, setBusy] = useState(false);
  const make = async () => {
    setBusy(true);
    try {
      const files = await bundle();
      save("mimeo-support.tar", tar(files), "application/x-tar");
      note(`The bundle has ${files.length} files. It has no documents, no statements and no secrets`);
    } catch (error) { note(`No bundle: ${/** @type {Error} */ (error).message}`); }
    setBusy(false);
  };
  return html`<button type="button" disabled=${isBusy} title="Versions, settings, health, metrics, log lines and lags in a tar file" onClick=${make}>${isBusy ? "Collecting …" : "Support bundle"}</button>`;
}
