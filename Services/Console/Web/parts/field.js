// @ts-check
/** One field of a document, with its type: only it is written, and only if nobody has changed it meanwhile. */

import { html, useState } from "../vendor/preact.js";
import { execute } from "../api.js";
import { update } from "../dql.js";
import { kind, Num, parse, print } from "../exact.js";
import { pathText } from "../format.js";
import { note } from "../store.js";
import { Dialog, Problem } from "./basics.js";
import { undoWhole } from "./undo.js";

const TYPES = ["text", "integer", "double", "boolean", "null", "JSON"];

/** @param {string} type @param {string} text @returns {any} */
export function read(type, text) {
  const typed = text.trim();
  switch (type) {
    case "text": return text;
    case "integer":
      if (!/^-?\d+$/.test(typed)) throw new Error("An integer has digits only");
      return parse(typed);
    case "double": {
      if (typed === "" || !Number.isFinite(Number(typed))) throw new Error("A double is a number");
      return /^-?\d+$/.test(typed) ? new Num(`${typed}.0`) : parse(typed);
    }
    case "boolean":
      if (typed !== "true" && typed !== "false") throw new Error("true or false");
      return typed === "true";
    case "null": return null;
    default: return parse(typed, { strict: true });
  }
}

/** @param {{database: string, collection: string, id: any, path: string[], value: any, close: () => void}} props */
export function FieldEdit({ database, collection, id, path, value, close }) {
  const found = kind(value);
  const [type, setType] = useState(TYPES.includes(found) ? found : "JSON");
  const [text, setText] = useState(found === "text" ? value : print(value));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const write = async (/** @type {any} */ after) => {
    const made = update(collection, id, [{ path, before: value, after }]);
    const answer = await execute(database, made.statement, made.args);
    if (answer.mutatedDocumentIds.length === 0) {
      throw Object.assign(new Error("Not saved: somebody has changed the field meanwhile"), { code: "CHANGED" });
    }
    note([`Saved ${pathText(path)}`, ...answer.warnings.map((/** @type {any} */ one) => one.description)].join(". "), { undo: () => undoWhole(database, answer) });
    close();
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    Promise.resolve().then(() => write(read(type, text))).catch((error) => setProblem({ code: error.code ?? "VALUE", ...error, message: error.message }));
  };
  return html`<${Dialog} title=${`Change ${pathText(path)}`} close=${close}><form onSubmit=${submit}>
    <label>Type<select value=${type} onChange=${(/** @type {any} */ event) => setType(event.currentTarget.value)}>${TYPES.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
    ${type !== "null" && html`<label>Value<textarea rows=${text.length > 80 ? 8 : 2} spellcheck=${false} value=${text} onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}></textarea></label>`}
    <${Problem} error=${problem} close=${() => setProblem(null)} />
    <div class="actions"><button type="submit" class="main">Save</button>
      <button type="button" class="danger" onClick=${() => write(undefined).catch(setProblem)}>Remove the field</button>
      <button type="button" onClick=${close}>Cancel</button></div></form></${Dialog}>`;
}
