// @ts-check
/** Documents of a file: JSON, lines of JSON, or CSV. */

import { define, parse } from "./exact.js";

/** @param {string} name @param {string} text @returns {any[]} */
export function documentsOf(name, text) {
  const content = text.replace(/^\ufeff/, "");
  if (/\.csv$/i.test(name)) return csvDocuments(content);
  if (/^\s*\[/.test(content)) return parse(content, { strict: true });
  const lines = content.split("\n");
  try {
    const whole = lines.map((line) => line.trim()).filter(Boolean);
    if (whole.length === 1 || whole.every((line) => line.startsWith("{") && line.endsWith("}"))) return whole.map((line) => parse(line, { strict: true }));
  } catch (error) {
    if (!content.trimStart().startsWith("{\n")) throw error;
  }
  return [parse(content, { strict: true })];
}

/** The cells of CSV, with quoted ones as RFC 4180 has them. @param {string} text @returns {string[][]} */
export function csvCells(text) {
  const rows = [];
  let row = [];
  let at = 0;
  while (at < text.length) {
    let cell = "";
    if (text[at] === "\"") {
      for (at += 1; at < text.length; at += 1) {
        if (text[at] !== "\"") cell += text[at];
        else if (text[at + 1] === "\"") { cell += "\""; at += 1; }
        else break;
      }
      at += 1;
    } else {
      const end = text.slice(at).search(/[,\r\n]/);
      cell = end < 0 ? text.slice(at) : text.slice(at, at + end);
      at += cell.length;
    }
    row.push(cell);
    if (text[at] === ",") {
      at += 1;
      if (at < text.length) continue;
      row.push("");
    }
    if (text[at] === "\r") at += 1;
    if (text[at] === "\n") at += 1;
    rows.push(row);
    row = [];
  }
  return rows;
}

/** The apostrophe of texts that a spreadsheet would take for formulas: results.js writes it. */
const GUARD = /^'(?='*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])/;

/** Rows as documents: an empty cell is missing, a number, true and false are what they look like. @param {string} text */
function csvDocuments(text) {
  const [names = [], ...rows] = csvCells(text);
  return rows.filter((row) => row.length > 1 || row[0] !== "").map((row, index) => {
    if (row.length !== names.length) throw new Error(`row ${index + 2} has ${row.length} cells, the first one ${names.length}`);
    /** @type {Record<string, any>} */
    const document = {};
    row.forEach((cell, place) => { if (cell !== "") define(document, names[place].replace(GUARD, ""), /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?|true|false)$/.test(cell) ? parse(cell) : cell.replace(GUARD, "")); });
    return document;
  });
}
