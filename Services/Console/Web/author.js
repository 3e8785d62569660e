// @ts-check
/** Whoever has written an operation, in a word. */

import { shortened } from "./format.js";

/**
 * The user, else the peer; an operation of a program over HTTP has the actor of the service.
 * @param {{user?: string | null, peer?: string | null, actor?: string}} operation
 */
export function by({ user, peer, actor }) {
  if (user) return user;
  return peer ? shortened(peer, 14) : `HTTP, actor ${shortened(actor ?? "", 8)}`;
}
