/** Keeps what the page shows true: an event makes the answers that it touches be asked for again. */
import { QueryClient, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { Away, ask, type Operation } from "./client";
import { type Event, follow } from "./events";

/** The operations that tell of a noun; an event's kind begins with the noun. */
const TOUCHES: Record<string, readonly string[]> = {
  item: ["Queues", "RunItem"],
  queue: ["Queues", "Queue"],
  agent: ["Queues", "Queue"],
  run: ["Runs", "Run", "Projects", "Files"],
  artifact: ["Jobs", "Job"],
};
/** Events come in bursts; what they touch is asked for once per burst, soon enough to look immediate. */
const BURST_MS = 60;

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      networkMode: "always",
      staleTime: 10_000,
      refetchOnWindowFocus: false,
      // Only silence is worth another try, and the event stream knows when it ends.
      retry: (failures, error) => error instanceof Away && failures < 2,
    },
    mutations: { networkMode: "always" },
  },
});

export function useAsk<Data, Variables extends object>(
  operation: Operation<Data, Variables>,
  variables: Variables,
  options: AskOptions = {},
) {
  return useQuery({ queryKey: [operation.name, variables], queryFn: () => ask(operation, variables), ...options });
}
type AskOptions = { enabled?: boolean; refetchInterval?: number | false };

/** Something done to the server; what it touched is asked for again. */
export function useDeed<Data, Variables>(operation: Operation<Data, Variables>, ...touched: string[]) {
  const known = useQueryClient();
  const mutationFn = (variables: Variables) => ask(operation, variables);
  return useMutation({ mutationFn, onSuccess: () => refresh(known, touched) });
}

export const refresh = (known: QueryClient, names: Iterable<string>) =>
  Promise.all([...names].map((name) => known.invalidateQueries({ queryKey: [name] })));

let isLive = true;
const statusListeners = new Set<() => void>();
const eventListeners = new Set<(event: Event) => void>();

export function useIsLive(): boolean {
  return useSyncExternalStore(
    (tell) => {
      statusListeners.add(tell);
      return () => statusListeners.delete(tell);
    },
    () => isLive,
  );
}

export function useEvents(listen: (event: Event) => void): void {
  useEffect(() => {
    eventListeners.add(listen);
    return () => void eventListeners.delete(listen);
  }, [listen]);
}

/** Follows the server for as long as somebody is signed in. */
export function useLive(): void {
  useEffect(() => {
    const touched = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      timer = undefined;
      refresh(client, touched);
      touched.clear();
    };
    const event = (event: Event) => {
      for (const name of TOUCHES[event.kind.split(".")[0] ?? ""] ?? []) touched.add(name);
      timer ??= setTimeout(flush, BURST_MS);
      for (const listen of eventListeners) listen(event);
    };
    const status = (now: boolean) => {
      // What happened between the first questions and this connection was not told: ask all again.
      if (now) client.invalidateQueries();
      if (now === isLive) return;
      isLive = now;
      for (const tell of statusListeners) tell();
    };
    const stop = follow({ event, status });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, []);
}
