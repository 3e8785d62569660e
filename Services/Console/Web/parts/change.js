// @ts-check
/** Inserting documents, typed or from a file, and deleting the chosen ones. */

import { html, useRef, useState } from "../vendor/preact.js";
import { execute } from "../api.js";
import { name } from "../dql.js";
import { MalformedJSON, parse, print } from "../exact.js";
import { documentsOf } from "../files.js";
import { counted, grouped, idText } from "../format.js";
import { note } from "../store.js";
import { Dialog, Problem } from "./basics.js";
import { Editor } from "./editor.js";
import { undoWhole } from "./undo.js";

/** Documents of one statement of an import. */
const BATCH = 500;

/** @param {string} database @param {string} collection @param {any[]} documents @returns {Promise<any>} The answer. */
async function insert(database, collection, documents) {
  return execute(database, `INSERT INTO ${name(collection)} DOCUMENTS ${documents.map((_, index) => `(:d${index})`).join(", ")}`,
    Object.fromEntries(documents.map((document, index) => [`d${index}`, document])), { quiet: documents.length > 20 });
}

/** @param {{database: string, collection: string | null, like?: any, close: (made?: string) => void}} props */
export function Insert({ database, collection, like, close }) {
  const [target, setTarget] = useState(collection ?? "");
  const [text, setText] = useState("{\n  \n}");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    let documents;
    try {
      const value = parse(text, { strict: true });
      documents = Array.isArray(value) ? value : [value];
    } catch (error) {
      return setProblem({ code: "JSON", message: /** @type {Error} */ (error).message, details: error instanceof MalformedJSON ? error : {} });
    }
    try {
      const answer = await insert(database, target, documents);
      const ids = answer.mutatedDocumentIds;
      note(ids.length === 1 ? `Inserted ${idText(ids[0])}` : `Inserted ${counted(ids.length, "document")}`, { undo: () => undoWhole(database, answer) });
      close(target);
    } catch (error) { setProblem(error); }
  };
  const [progress, setProgress] = useState(/** @type {null | {done: number, all: number}} */ (null));
  const load = async (/** @type {any} */ event) => {
    const [file] = event.currentTarget.files;
    event.currentTarget.value = "";
    if (!file || !target) return file && setProblem({ code: "COLLECTION", message: "Name the collection first" });
    setProblem(null);
    let done = 0;
    /** @type {any[]} */
    const answers = [];
    const undo = async () => { for (const answer of answers.reverse()) await undoWhole(database, answer); };
    try {
      const documents = documentsOf(file.name, await file.text());
      for (; done < documents.length; done += BATCH) {
        setProgress({ done, all: documents.length });
        const { transactionId } = await insert(database, target, documents.slice(done, done + BATCH));
        answers.push({ transactionId });
      }
      note(`Inserted ${counted(documents.length, "document")} of ${file.name}`, { undo });
      close(target);
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      setProblem({ code: "IMPORT", .../** @type {any} */ (error), message: `${done > 0 ? `After ${grouped(done)} documents: ` : ""}${message}` });
    }
    setProgress(null);
  };
  return html`<${Dialog} title=${collection === null ? "First document of a collection" : `Insert into ${collection}`} wide close=${() => close()}>
    <form onSubmit=${submit}>
      ${collection === null && html`<label>Collection<input required value=${target} onInput=${(/** @type {any} */ event) => setTarget(event.currentTarget.value)} /></label>`}
      <${Editor} label="Document as JSON" mode="exact-json" focus value=${text} change=${(/** @type {string} */ next) => { setText(next); setProblem(null); }} mark=${problem?.details} />
      <p class="quiet">One document, or an array of them. Without <code>_id</code> the server draws one. <code>1</code> and <code>1.0</code> are an integer and a double.
        ${like && html` <button type="button" onClick=${() => setText(print({ ...like, _id: undefined }, 2))}>Like the first one</button>`}</p>
      <${Problem} error=${problem} close=${() => setProblem(null)} />
      ${progress && html`<p role="status">${grouped(progress.done)} of ${grouped(progress.all)} <progress value=${progress.done / progress.all} aria-label="Import"></progress></p>`}
      <div class="actions"><button type="submit" class="main">Insert</button><label class="button">From a file<input class="hidden" type="file" accept=".json,.ndjson,.jsonl,.csv" onChange=${load} /></label><button type="button" onClick=${() => close()}>Cancel</button></div>
    </form></${Dialog}>`;
}

/** @param {{database: string, collection: string, documents: any[], close: () => void}} props */
export function Delete({ database, collection, documents, close }) {
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const input = useRef(null);
  const isSure = documents.length === 1 || typed === String(documents.length);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const answer = await execute(database, `DELETE FROM ${name(collection)} WHERE _id IN :ids`, { ids: documents.map(({ _id }) => _id) });
      note(`Deleted ${counted(documents.length, "document")}`, { undo: () => undoWhole(database, answer) });
      close();
    } catch (error) { setProblem(error); }
  };
  return html`<${Dialog} title=${`Delete ${counted(documents.length, "document")}`} close=${close}><form onSubmit=${submit}>
    <ul class="ids">${documents.slice(0, 8).map((one) => html`<li key=${print(one._id)}>${idText(one._id)}</li>`)}${documents.length > 8 && html`<li>and ${documents.length - 8} more</li>`}</ul>
    ${documents.length > 1 && html`<label>Type ${documents.length} to delete them<input ref=${input} value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label>`}
    <${Problem} error=${problem} close=${() => setProblem(null)} />
    <div class="actions"><button type="submit" class="danger" disabled=${!isSure}>Delete</button><button type="button" onClick=${close}>Cancel</button></div></form></${Dialog}>`;
}
