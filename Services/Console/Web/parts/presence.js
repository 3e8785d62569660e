// @ts-check
/** The server with its sessions as a picture: colour is the state, a thick line has bytes waiting. */

import { html } from "../vendor/preact.js";
import { bytes, counted, shortened } from "../format.js";

const WIDTH = 900;
const HEIGHT = 300;
/** More sessions than these are drawn without names. */
const NAMED = 24;
/** And more than these not at all: the table has them. */
const DRAWN = 300;

/** @param {any} one */
function tone(one) { return Number(one.catchingUp) > 0 ? "catching-up" : Number(one.lag) > 4096 ? "behind" : "live"; }

/** Places on ellipses around the middle. @param {number} count @returns {{x: number, y: number}[]} */
export function places(count) {
  const rings = count <= NAMED ? 1 : Math.min(6, Math.ceil(count / 50));
  return Array.from({ length: count }, (_, index) => {
    const ring = index % rings;
    const inRing = Math.ceil((count - ring) / rings);
    const angle = (Math.floor(index / rings) / inRing + ring * 0.03) * 2 * Math.PI - Math.PI / 2;
    const size = rings === 1 ? 1 : 0.55 + 0.45 * ring / (rings - 1);
    return { x: WIDTH / 2 + Math.cos(angle) * (WIDTH / 2 - 130) * size, y: HEIGHT / 2 + Math.sin(angle) * (HEIGHT / 2 - 38) * size };
  });
}

/** @param {{sessions: any[], choose: (one: any) => void}} props */
export function Presence({ sessions, choose }) {
  if (sessions.length === 0) return null;
  const drawn = sessions.slice(0, DRAWN);
  const at = places(drawn.length);
  const isNamed = drawn.length <= NAMED;
  return html`<figure class="presence"><svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label=${`The server and ${counted(sessions.length, "session")}`}>
    ${drawn.map((one, index) => html`<line key=${`line-${one.number}`} class=${tone(one)} x1=${WIDTH / 2} y1=${HEIGHT / 2} x2=${at[index].x} y2=${at[index].y}
      stroke-width=${1 + Math.min(5, Math.log10(1 + Number(one.unsentBytes) / 1024))} />`)}
    <g class="server"><circle cx=${WIDTH / 2} cy=${HEIGHT / 2} r="26" /><text x=${WIDTH / 2} y=${HEIGHT / 2 + 5} text-anchor="middle">server</text></g>
    ${drawn.map((one, index) => html`<g key=${one.number} class=${`peer ${tone(one)}`} role="button" tabIndex="0" aria-label=${`Session of ${one.userID}, ${tone(one).replace("-", " ")}`}
        onClick=${() => choose(one)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(one); } }}>
      <title>${one.userID}: lag ${String(one.lag)}, ${bytes(Number(one.unsentBytes))} waiting</title>
      <circle cx=${at[index].x} cy=${at[index].y} r=${isNamed ? 11 : 5} />
      ${isNamed && html`<text x=${at[index].x} y=${at[index].y + (at[index].y < HEIGHT / 2 ? -17 : 27)} text-anchor="middle">${shortened(one.userID, 16)}${one.peerKey ? ` · ${one.peerKey.slice(0, 7)}` : ""}</text>`}</g>`)}
  </svg>${sessions.length > DRAWN && html`<figcaption>The first ${DRAWN} of ${counted(sessions.length, "session")}</figcaption>`}</figure>`;
}
