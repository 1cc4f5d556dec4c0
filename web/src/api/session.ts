/**
 * Whether somebody is signed in. The only place that knows how: by a cookie that scripts cannot read, which the server gives
 * for a key, a password or a one-time link.
 */

/** What tells the server that a request is the page's own; others' pages cannot send it. */
export const PAGE = { "X-Volley-Page": "1" };

const listeners = new Set<() => void>();
/** Believed until the server says otherwise: then nobody who is signed in waits for it to say so. */
let isSignedIn = true;

function set(now: boolean): void {
  isSignedIn = now;
  for (const tell of listeners) tell();
}

export const isBelieved = (): boolean => isSignedIn;
export const begin = (): void => set(true);

/** The session has ended. What was typed stays, for when its author has signed in again. */
export const end = (): void => set(false);

/** Somebody leaves: nothing of theirs stays. */
export function leave(): void {
  sessionStorage.clear();
  set(false);
}

export function onSession(tell: () => void): () => void {
  listeners.add(tell);
  return () => listeners.delete(tell);
}
