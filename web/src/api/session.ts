/** Who is signed in. The only place that knows how: today by API key, kept by the browser until sign-out. */

const NAME = "volley.key";
const listeners = new Set<() => void>();

export const currentKey = (): string | null => sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME);

/** A key that is to be remembered outlives the window; another is forgotten with it. */
export function signIn(key: string, isRemembered: boolean): void {
  (isRemembered ? localStorage : sessionStorage).setItem(NAME, key);
  for (const tell of listeners) tell();
}

/** The key is no longer good. What was typed stays, for when its author has signed in again. */
export function forgetKey(): void {
  sessionStorage.removeItem(NAME);
  localStorage.removeItem(NAME);
  for (const tell of listeners) tell();
}

/** Somebody leaves: nothing of theirs stays. */
export function signOut(): void {
  sessionStorage.clear();
  forgetKey();
}

export function onSession(tell: () => void): () => void {
  listeners.add(tell);
  return () => listeners.delete(tell);
}

export const authorization = (key = currentKey()): Record<string, string> => (key ? { Authorization: `Bearer ${key}` } : {});
