// @ts-check
/** Rights as a form: for reading and for writing everything, nothing, or collections with a condition; and as JSON. */

import { html, useState } from "../vendor/preact.js";
import { parse, print } from "../exact.js";

/** The condition that every document fulfils. */
const ALL = "true";

/**
 * @typedef {object} Side
 * @property {"everything" | "some" | "nothing"} reach
 * @property {Record<string, string>} rules Conditions by collection.
 */

/** One side of a grant for the form; null if the form cannot show it. @param {any} rules @returns {Side | null} */
function sideOf(rules) {
  const byCollection = rules?.queriesByCollection ?? {};
  if (rules?.everything) return { reach: "everything", rules: {} };
  const all = Object.entries(byCollection);
  if (all.some(([, conditions]) => !Array.isArray(conditions) || conditions.length !== 1 || typeof conditions[0] !== "string")) return null;
  return { reach: all.length > 0 ? "some" : "nothing", rules: Object.fromEntries(all.map(([name, [condition]]) => [name, condition])) };
}

/** @param {Side} side */
function rulesOf({ reach, rules }) {
  if (reach === "everything") return { everything: true };
  return reach === "nothing" ? undefined : { queriesByCollection: Object.fromEntries(Object.entries(rules).map(([name, condition]) => [name, [condition]])) };
}

/** The grant of a text for the form; null if it is no JSON, or more than the form can show. @param {string} text */
function read(text) {
  try {
    const grant = parse(text, { strict: true });
    const [reads, writes] = [sideOf(grant.read), sideOf(grant.write)];
    const isKnown = Object.keys(grant).every((key) => key === "read" || key === "write");
    return reads && writes && isKnown ? { read: reads, write: writes } : null;
  } catch { return null; }
}

/**
 * @param {{text: string, change: (text: string) => void, collections: string[]}} props `text` is the grant as JSON.
 */
export function Rights({ text, change, collections }) {
  const [adding, setAdding] = useState("");
  // Sides whose collections are about to be named, while none is.
  const [waiting, setWaiting] = useState(/** @type {string[]} */ ([]));
  const form = read(text);
  const set = (/** @type {{read: Side, write: Side}} */ next) => {
    const grant = { read: rulesOf(next.read), write: rulesOf(next.write) };
    change(print(Object.fromEntries(Object.entries(grant).filter(([, side]) => side !== undefined)), 2));
  };
  const side = (/** @type {"read" | "write"} */ key, /** @type {string} */ title, /** @type {{read: Side, write: Side}} */ all) => {
    const { rules } = all[key];
    const reach = all[key].reach === "nothing" && waiting.includes(key) ? "some" : all[key].reach;
    const choose = (/** @type {any} */ value) => {
      setWaiting(value === "some" ? [...waiting, key] : waiting.filter((one) => one !== key));
      set({ ...all, [key]: value === "some" && collections.length > 0 ? { reach: value, rules: { [collections[0]]: ALL } } : { reach: value === "some" ? "nothing" : value, rules: {} } });
    };
    const rule = (/** @type {string} */ name, /** @type {string | undefined} */ condition) => {
      const { [name]: _, ...others } = rules;
      const next = condition === undefined ? others : { ...rules, [name]: condition };
      set({ ...all, [key]: { reach: Object.keys(next).length > 0 ? "some" : "nothing", rules: next } });
    };
    return html`<fieldset><legend>${title}</legend>
      <div class="choices">${[["everything", "everything"], ["some", "some collections"], ["nothing", "nothing"]].map(([value, label]) => html`<label class="check" key=${value}><input type="radio" name=${key} checked=${reach === value}
        onChange=${() => choose(value)} />${label}</label>`)}</div>
      ${reach === "some" && html`<ul class="rules">${Object.entries(rules).map(([name, condition]) => html`<li key=${name}><b>${name}</b>
          <input class="code" aria-label=${`${title} ${name} where`} value=${condition === ALL ? "" : condition} placeholder="all documents, or as in  _id.owner == 'me'"
            onChange=${(/** @type {any} */ event) => rule(name, event.currentTarget.value.trim() || ALL)} />
          <button type="button" aria-label=${`${title} ${name} no more`} onClick=${() => rule(name, undefined)}>✕</button></li>`)}</ul>
        <p><input aria-label=${`${title}: another collection`} list="grantable" placeholder="another collection" value=${adding} onInput=${(/** @type {any} */ event) => setAdding(event.currentTarget.value)} />
          <button type="button" disabled=${!adding.trim()} onClick=${() => { rule(adding.trim(), ALL); setAdding(""); }}>Add</button></p>`}</fieldset>`;
  };
  return html`<div class="rights">
    ${form ? html`${side("read", "Reads", form)}${side("write", "Writes", form)}<datalist id="grantable">${collections.map((one) => html`<option key=${one} value=${one} />`)}</datalist>`
      : html`<p class="warning">The form does not show these rights: the JSON has a mistake, or more than one condition of a collection.</p>`}
    <details open=${!form}><summary>As JSON</summary><textarea class="code" rows="8" aria-label="Rights as JSON" spellcheck=${false} value=${text} onInput=${(/** @type {any} */ event) => change(event.currentTarget.value)}></textarea></details></div>`;
}
