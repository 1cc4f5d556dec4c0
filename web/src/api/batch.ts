/**
 * Gathers names that come in bursts and hands them on together.
 *
 * There are never two goes at once: an older answer cannot overtake a newer one, and a stream of events faster than its answers
 * does not keep them from ever arriving.
 */
export type Batch = { add: (name: string) => void; stop: () => void };

/** Events of one change come together; what comes later than this waits for the go that is under way. */
const BURST_MS = 15;

export function batch(work: (names: string[]) => Promise<unknown>): Batch {
  const names = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isBusy = false;
  const schedule = () => {
    if (names.size > 0 && !isBusy) timer ??= setTimeout(go, BURST_MS);
  };
  const go = async () => {
    timer = undefined;
    isBusy = true;
    const now = [...names];
    names.clear();
    // Work fails while the server is away; when it is back everything is asked for again.
    await work(now).catch(() => undefined);
    isBusy = false;
    schedule();
  };
  const add = (name: string) => {
    names.add(name);
    schedule();
  };
  const stop = () => {
    clearTimeout(timer);
    names.clear();
  };
  return { add, stop };
}
