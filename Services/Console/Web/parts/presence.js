// @ts-check
/**
 * The server, the peers with a session, and the connections between peers, as a picture. Colour is the state;
 * a thick line has bytes waiting; a dashed one goes between peers.
 */

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { device } from "../author.js";
import { bytes, counted, shortened } from "../format.js";

/** Heights of the picture, for few peers and for more. */
const LOW = 190;
const HIGH = 300;
const FEW = 6;
/** Widths of the picture: it is drawn at the size in which it is seen, so that its names can be read. */
const NARROWEST = 340;
const WIDEST = 1200;
/** More peers than these are drawn without names. */
const NAMED = 24;
/** And more than these not at all: the table has them. */
const DRAWN = 300;
/** Operations behind the log, from which on a session is behind: less is told with the next progress. */
export const BEHIND = 4096;

/** The state of a session in a word. @param {any} one */
export function stateOf(one) {
  if (Number(one.catchingUp) > 0) return "catching up";
  return Number(one.lag) > BEHIND ? "behind" : "live";
}

/**
 * @typedef {object} Node
 * @property {string} key
 * @property {string} name
 * @property {string} about
 * @property {any} session Null for a peer that is known through others only.
 * @property {any} peer What the presence graph tells of it; null if it tells nothing.
 */

/**
 * Peers and their connections: from the presence graph where there is one, and always from the sessions.
 * @param {any[]} sessions @param {any} graph `{peers, connections}`, or null.
 * @returns {{nodes: Node[], links: {id: string, from: string, to: string, type: string}[]}}
 */
export function network(sessions, graph) {
  /** @type {Map<string, Node>} */
  const nodes = new Map();
  for (const session of sessions) {
    const key = session.peerKey ?? `session-${session.session ?? session.number}`;
    nodes.set(key, { key, name: session.userID, about: session.peerKey ? device(session.peerKey) : "", session, peer: null });
  }
  for (const peer of graph?.peers ?? []) {
    const node = nodes.get(peer.peerKey) ?? { key: peer.peerKey, name: "", about: "", session: null, peer: null };
    // Of several with one name each has the beginning of its key too.
    const named = device(peer.peerKey);
    const own = peer.deviceName && named.startsWith(peer.deviceName) ? named : peer.deviceName;
    nodes.set(peer.peerKey, { ...node, peer, name: own || node.name || peer.peerKey.slice(0, 12), about: [peer.os, node.session?.userID ?? peer.userID].filter(Boolean).join(" · ") });
  }
  const links = new Map();
  const all = [...(graph?.connections ?? []), ...(graph?.peers ?? []).flatMap((/** @type {any} */ peer) => peer.connections ?? [])];
  for (const one of all) {
    const [from, to] = [one.peer1, one.peer2];
    if (nodes.has(from) && nodes.has(to) && from !== to) links.set([from, to].sort().join(" ") + one.connectionType, { id: one.id, from, to, type: one.connectionType });
  }
  return { nodes: [...nodes.values()], links: [...links.values()] };
}

/** @param {Node} node */
function tone(node) {
  if (node.session) return stateOf(node.session).replace(" ", "-");
  return node.peer?.isConnectedToDittoServer ? "live" : "apart";
}

/** @param {Node} node */
function words(node) {
  const state = node.session ? stateOf(node.session) : node.peer?.isConnectedToDittoServer ? "at another instance" : "through other peers only";
  return `${node.name}${node.about ? `, ${node.about}` : ""}: ${state}${node.session ? `, lag ${node.session.lag}, ${bytes(Number(node.session.unsentBytes))} waiting` : ""}`;
}

/** @param {number} count */
function heightFor(count) { return count <= FEW ? LOW : HIGH; }

/** Places on ellipses around the middle. @param {number} count @param {number} width @returns {{x: number, y: number}[]} */
export function places(count, width) {
  const height = heightFor(count);
  const margin = width < 600 ? 70 : 130;
  const rings = count <= NAMED ? 1 : Math.min(6, Math.ceil(count / 50));
  return Array.from({ length: count }, (_, index) => {
    const ring = index % rings;
    const inRing = Math.ceil((count - ring) / rings);
    const angle = (Math.floor(index / rings) / inRing + ring * 0.03) * 2 * Math.PI - Math.PI / 2;
    const size = rings === 1 ? 1 : 0.55 + 0.45 * ring / (rings - 1);
    return { x: width / 2 + Math.cos(angle) * (width / 2 - margin) * size, y: height / 2 + Math.sin(angle) * (height / 2 - 38) * size };
  });
}

/** @param {{sessions: any[], graph: any, choose: (node: Node) => void}} props */
export function Presence({ sessions, graph, choose }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(900);
  const isShown = sessions.length > 0 || (graph?.peers ?? []).length > 0;
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const look = () => setWidth(Math.max(NARROWEST, Math.min(WIDEST, Math.round(element.clientWidth))));
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  }, [isShown]);
  // Peers keep their order while others come and go, so that the picture does not turn.
  const order = useRef(/** @type {string[]} */ ([]));
  const { nodes, links } = network(sessions, graph);
  const keys = new Set(nodes.map(({ key }) => key));
  order.current = order.current.filter((key) => keys.has(key));
  for (const { key } of nodes) if (!order.current.includes(key)) order.current.push(key);
  if (nodes.length === 0) return null;
  const sorted = order.current.map((key) => /** @type {Node} */ (nodes.find((node) => node.key === key)));
  const drawn = sorted.slice(0, DRAWN);
  const spots = places(drawn.length, width);
  const at = new Map(drawn.map((node, index) => [node.key, spots[index]]));
  const isNamed = drawn.length <= NAMED;
  const height = heightFor(drawn.length);
  const between = links.filter(({ from, to }) => at.has(from) && at.has(to));
  return html`<figure class="presence" ref=${frame}><svg viewBox=${`0 0 ${width} ${height}`} role="group" aria-label=${`The server, ${counted(nodes.length, "peer")} and ${counted(between.length, "connection")} between them`}>
    ${between.map((one) => {
      const [a, b] = [/** @type {any} */ (at.get(one.from)), /** @type {any} */ (at.get(one.to))];
      const [x, y] = [(a.x + b.x) / 2 * 0.75 + width / 8, (a.y + b.y) / 2 * 0.75 + height / 8];
      return html`<path key=${`between-${one.from}-${one.to}-${one.type}`} class="between" d=${`M ${a.x} ${a.y} Q ${x} ${y} ${b.x} ${b.y}`}><title>${one.type}</title></path>`;
    })}
    ${drawn.filter((node) => node.session || node.peer?.isConnectedToDittoServer).map((node) => {
      const spot = /** @type {any} */ (at.get(node.key));
      return html`<line key=${`line-${node.key}`} class=${tone(node)} x1=${width / 2} y1=${height / 2} x2=${spot.x} y2=${spot.y}
        stroke-width=${1.5 + Math.min(5, Math.log10(1 + Number(node.session?.unsentBytes ?? 0) / 1024))} />`;
    })}
    <g class="server"><circle cx=${width / 2} cy=${height / 2} r="26" /><text x=${width / 2} y=${height / 2 + 5} text-anchor="middle">server</text></g>
    ${drawn.map((node) => {
      const spot = /** @type {any} */ (at.get(node.key));
      const isAbove = spot.y < height / 2;
      return html`<g key=${node.key} class=${`peer ${tone(node)}`} role="button" tabIndex="0" aria-label=${words(node)}
          onClick=${() => choose(node)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(node); } }}>
        <title>${words(node)}</title>
        <circle cx=${spot.x} cy=${spot.y} r=${isNamed ? 11 : 5} />
        ${isNamed && html`<text x=${spot.x} y=${spot.y + (isAbove ? -17 : 27)} text-anchor="middle">${shortened(node.name, width < 600 ? 12 : 18)}${node.about && width >= 600 ? html` <tspan class="about">${shortened(node.about, 22)}</tspan>` : ""}</text>`}</g>`;
    })}
  </svg><figcaption><span class="legend live">live</span><span class="legend catching-up">catching up</span><span class="legend behind">behind</span>${links.length > 0 || nodes.some((node) => !node.session) ? html`<span class="legend apart">through other peers</span>` : ""}
    ${nodes.length > DRAWN && html`<span>The first ${DRAWN} of ${counted(nodes.length, "peer")}</span>`}</figcaption></figure>`;
}
