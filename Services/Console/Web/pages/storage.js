// @ts-check
/** What takes the room: disks, the log, collections, attachments; and how backups are made. */

import { html, useState } from "../vendor/preact.js";
import { call } from "../api.js";
import { bytes, counted, grouped } from "../format.js";
import { address } from "../route.js";
import { mayAdmin, note } from "../store.js";
import { collections } from "../schema.js";
import { copy, Dialog, Looking, Problem, Time, useLoaded, useRepeated } from "../parts/basics.js";

/** Collections in the list of the largest. */
const LARGEST = 20;

/** Values of a metric by its label, from the text of /metrics. @param {string} text @param {string} name @param {string} label */
export function byLabel(text, name, label) {
  /** @type {Record<string, number>} */
  const found = {};
  for (const line of text.split("\n")) {
    if (!line.startsWith(`${name}{`)) continue;
    const key = new RegExp(`${label}="((?:[^"\\\\]|\\\\.)*)"`).exec(line)?.[1];
    if (key !== undefined) found[key] = Number(line.slice(line.lastIndexOf(" ") + 1));
  }
  return found;
}

/** @param {{database: string | null}} props */
export function Storage({ database }) {
  const figures = useLoaded(async () => (await fetch("/metrics", { cache: "no-store" })).text(), []);
  useRepeated(figures.again, 15_000, []);
  const text = figures.value ?? "";
  const [free, size] = [byLabel(text, "mimeo_disk_free_bytes", "volume"), byLabel(text, "mimeo_disk_size_bytes", "volume")];
  const log = /^mimeo_log_size_bytes(?:\{[^}]*\})? (\S+)$/m.exec(text)?.[1];
  return html`<section class="card" aria-label="Disks"><h2>Disks</h2><${Problem} error=${figures.error} retry=${figures.again} /><${Looking} found=${figures} />
      ${Object.keys(size).length > 0 && html`<table class="plain-table"><thead><tr><th scope="col">Folder</th><th scope="col">Used</th><th scope="col">Free</th><th scope="col">Size</th></tr></thead><tbody>
        ${Object.entries(size).map(([volume, whole]) => html`<tr key=${volume}><th scope="row"><code>${volume}</code></th>
          <td><meter min="0" max=${whole} low=${whole * 0.8} high=${whole * 0.95} optimum="0" value=${whole - (free[volume] ?? 0)} aria-label=${`${volume}: used`}></meter> ${Math.round((1 - (free[volume] ?? 0) / whole) * 100)} %</td>
          <td>${bytes(free[volume] ?? 0)}</td><td>${bytes(whole)}</td></tr>`)}</tbody></table>`}
      ${log && html`<p class="quiet">The log's file has ${bytes(Number(log))}, all databases together. A truncation makes room in it for later operations.</p>`}</section>
    ${database && html`<${Collections} database=${database} /><${Files} database=${database} />`}
    <${Backups} />`;
}

/** @param {{database: string}} props */
function Collections({ database }) {
  const found = useLoaded(() => collections(database), [database]);
  const all = [...(found.value ?? [])].sort((a, b) => Number(b.bytes ?? 0) - Number(a.bytes ?? 0));
  const sum = all.reduce((total, one) => total + Number(one.bytes ?? 0), 0);
  return html`<section class="card" aria-label="Collections"><header><h2>Collections</h2><span class="end quiet">${found.value && `${counted(all.length, "collection")}, ${bytes(sum)}`}</span></header><${Problem} error=${found.error} retry=${found.again} /><${Looking} found=${found} />
    ${all.length > 0 && html`<table class="plain-table"><thead><tr><th scope="col">Collection</th><th scope="col">Documents</th><th scope="col">Size</th><th scope="col">Mean</th><th scope="col">Share</th></tr></thead><tbody>
      ${all.slice(0, LARGEST).map((one) => html`<tr key=${one.name}><th scope="row"><a href=${address(database, "data", [one.name])}>${one.name}</a></th><td>${grouped(Number(one.documents ?? 0))}</td><td>${bytes(Number(one.bytes ?? 0))}</td>
        <td>${one.documents ? bytes(Number(one.bytes ?? 0) / Number(one.documents)) : "–"}</td><td><meter min="0" max=${Math.max(sum, 1)} value=${Number(one.bytes ?? 0)} aria-label=${`Share of ${one.name}`}></meter></td></tr>`)}</tbody></table>
      ${all.length > LARGEST && html`<p class="quiet">The ${LARGEST} largest of ${grouped(all.length)}.</p>`}`}
    ${found.value && all.length === 0 && html`<p class="quiet">None yet. A collection begins with its first document.</p>`}</section>`;
}

/** @param {{database: string}} props */
function Files({ database }) {
  const base = `/admin/attachment-store/databases/${encodeURIComponent(database)}`;
  const usage = useLoaded(() => call("GET", `${base}/usage`, { quiet: true }), [database]);
  const check = useLoaded(() => call("GET", `${base}/verifications`, { quiet: true }), [database]);
  const [isCollecting, setCollecting] = useState(false);
  useRepeated(() => { if (check.value?.running) { check.again(); usage.again(); } }, 1500, [check.value?.running]);
  const verify = async () => {
    try { await call("POST", `${base}/verifications`, { body: {} }); check.again(); } catch (error) { note(`Not done: ${/** @type {Error} */ (error).message}`); }
  };
  const facts = usage.value;
  const course = check.value;
  return html`<section class="card" aria-label="Attachments"><header><h2>Attachments</h2><span class="end">${mayAdmin("operate") && html`<button type="button" disabled=${course?.running} onClick=${verify}>Verify all</button>`}
      ${mayAdmin("own") && html`<button type="button" onClick=${() => setCollecting(true)}>Remove unmentioned</button>`}</span></header>
    <${Problem} error=${usage.error ?? check.error} retry=${() => { usage.again(); check.again(); }} /><${Looking} found=${usage} />
    ${facts && html`<dl class="facts"><div><dt>Stored</dt><dd>${counted(Number(facts.attachments), "attachment")}, ${bytes(Number(facts.bytes))}</dd></div>
      <div><dt>Quota</dt><dd>${facts.quotaBytes === null ? "none" : bytes(Number(facts.quotaBytes))}</dd></div>
      <div><dt>Unfinished uploads</dt><dd>${grouped(Number(facts.uploads))}, ${bytes(Number(facts.uploadBytes))}</dd></div>
      <div><dt>Damaged, set aside</dt><dd>${facts.damaged.length === 0 ? "none" : facts.damaged.join(", ")}</dd></div></dl>`}
    ${course && (course.beganAt !== undefined || course.running) && html`<p role="status">${course.running ? "Comparing every file with its id: " : html`Verified <${Time} at=${Number(course.endedAt ?? course.beganAt) * 1000} />: `}${counted(Number(course.checked ?? 0), "file")}, ${bytes(Number(course.checkedBytes ?? 0))}, ${counted(Number(course.damaged ?? 0), "damaged one")}.</p>`}
    ${isCollecting && html`<${Collect} base=${base} close=${() => { setCollecting(false); usage.again(); }} />`}</section>`;
}

/** @param {{base: string, close: () => void}} props */
function Collect({ base, close }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [hours, setHours] = useState("");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setProblem(null);
    try { setAnswer(await call("POST", `${base}/collections${hours ? `?graceHours=${encodeURIComponent(hours)}` : ""}`, { body: {} })); } catch (error) { setProblem(error); }
  };
  return html`<${Dialog} title="Remove unmentioned attachments" close=${close}><form onSubmit=${submit}>
    <p>Removes the files that no document has mentioned for the grace period. This cannot be undone. A peer that still has one can upload it again.</p>
    <label>Grace period in hours<input type="number" min="0" placeholder="as the server is set" value=${hours} onInput=${(/** @type {any} */ event) => setHours(event.currentTarget.value)} /></label>
    <${Problem} error=${problem} close=${() => setProblem(null)} />
    ${answer && html`<p role="status"><b>${counted(Number(answer.removed), "file")} removed</b>, ${bytes(Number(answer.removedBytes))}. ${grouped(Number(answer.mentioned))} are mentioned, ${grouped(Number(answer.waiting))} wait for the end of the period.${answer.isWhole ? "" : " More are left: press again."}</p>`}
    <div class="actions"><button type="submit" class="danger">Remove</button><button type="button" onClick=${close}>${answer ? "Done" : "Cancel"}</button></div></form></${Dialog}>`;
}

/** Backups are made on the server's machine: the commands, with the folder of this server. */
function Backups() {
  const settings = useLoaded(() => call("GET", "/admin/settings", { quiet: true }), []);
  const value = (/** @type {string} */ name) => settings.value?.settings.find((/** @type {any} */ one) => one.name === name)?.value;
  const data = value("data") ?? "DATA";
  const log = String(value("log") ?? "DATA/log.sqlite");
  const place = log.startsWith("postgres") ? `--data ${data} --log "$MIMEO_LOG"` : `--data ${data}`;
  const commands = [
    ["Back up now", `mimeo backup create ${place} --to /backups --attachments ${data}/attachments`], ["Only what is new", `mimeo backup create ${place} --to /backups --attachments ${data}/attachments --incremental`],
    ["Keep following", `mimeo backup follow ${place} --to /backups --attachments ${data}/attachments`], ["Check a backup", "mimeo backup verify /backups"],
  ];
  return html`<section class="card" aria-label="Backups"><h2>Backups</h2>
    <p class="quiet">A backup is made on the server's machine while the server runs: it reads the log, which has everything. These commands know this server's folder.</p>
    ${commands.map(([title, command]) => html`<div class="command" key=${title}><p>${title}</p><pre tabIndex="0">${command}</pre><button type="button" aria-label=${`Copy: ${title}`} onClick=${() => copy(command)}>Copy</button></div>`)}</section>`;
}
