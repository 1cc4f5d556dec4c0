/** The server's event stream, read by `fetch`, which unlike an EventSource tells why it failed. A cut is resumed behind the last event. */
import { end, PAGE } from "./session";

export type Event = { at: string; kind: string; subject: string; body: Record<string, unknown> };
type Listener = { event: (event: Event) => void; status: (isLive: boolean) => void };

const RETRY_MS = [300, 600, 1200, 2500, 5000];
/** The server sends a sign of life every 5 seconds; 45 seconds without one mean a dead connection. */
const SILENCE_MS_MAX = 45_000;

/** Follows events until the returned function is called. `status(true)` is told at every new connection. */
export function follow(listener: Listener): () => void {
  const stop = new AbortController();
  run(listener, stop.signal);
  return () => stop.abort();
}

async function run(listener: Listener, stop: AbortSignal): Promise<void> {
  let last: string | null = null;
  for (let failures = 0; !stop.aborted; failures++) {
    try {
      for await (const message of connection(last, stop, () => listener.status(true))) {
        failures = 0;
        last = message.id;
        listener.event(message.event);
      }
    } catch {
      // The reason does not matter: we try again, and say that we do.
    }
    if (stop.aborted) return;
    listener.status(false);
    await pause(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 0, stop);
  }
}

async function* connection(last: string | null, stop: AbortSignal, opened: () => void) {
  const silence = new AbortController();
  // A computer that knows that it has no network need not wait for the silence.
  const cut = () => silence.abort();
  addEventListener("offline", cut);
  const headers = { ...PAGE, ...(last === null ? {} : { "Last-Event-ID": last }) };
  let timer = setTimeout(cut, SILENCE_MS_MAX);
  try {
    const response = await fetch("/api/v1/events", { headers, signal: AbortSignal.any([stop, silence.signal]) });
    if (response.status === 401) end();
    if (!response.ok || !response.body) throw new Error(response.statusText);
    opened();
    let rest = "";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      clearTimeout(timer);
      timer = setTimeout(cut, SILENCE_MS_MAX);
      const blocks = (rest + read.value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const message = parse(block);
        if (message) yield message;
      }
    }
  } finally {
    clearTimeout(timer);
    removeEventListener("offline", cut);
  }
}

function parse(block: string): { id: string; event: Event } | null {
  const fields = new Map(
    block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const [id, data] = [fields.get("id"), fields.get("data")];
  return id === undefined || data === undefined ? null : { id, event: JSON.parse(data) };
}

/** Until it is time to try again, or the network is back. */
function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      removeEventListener("online", go);
      stop.removeEventListener("abort", go);
      resolve();
    };
    const timer = setTimeout(go, ms);
    addEventListener("online", go);
    stop.addEventListener("abort", go);
  });
}
