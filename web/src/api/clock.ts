/** The server's time. A computer's own clock may be wrong, and times on the page are all the server's. */

/** Answers tell whole seconds and take a while; a difference below this is no difference. */
const GRAIN_MS = 2000;
let ahead = 0;

/** An answer came: it says what time it is. */
export function hear(date: string | null): void {
  const difference = date === null ? 0 : Date.parse(date) - Date.now();
  if (Number.isFinite(difference) && Math.abs(difference - ahead) > GRAIN_MS)
    ahead = Math.abs(difference) > GRAIN_MS ? difference : 0;
}

export const now = (): number => Date.now() + ahead;
