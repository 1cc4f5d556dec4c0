/** Keeps what the page shows true: an event makes the answers that it touches be asked for again. */
import { keepPreviousData, QueryClient, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import { batch } from "./batch";
import { Away, ask, type Operation } from "./client";
import { type Event, follow } from "./events";

/** The operations that tell of a noun; an event's kind begins with the noun. */
const TOUCHES: Record<string, readonly string[]> = {
  item: ["Queues", "QueueItem", "Places", "Monitor", "Story", "Clusters"],
  queue: ["Queues", "Queue", "History"],
  agent: ["Queues", "Queue", "Places", "Clusters"],
  run: ["Runs", "Run", "Projects", "Files", "Story"],
  artifact: ["Jobs", "Job", "Artifacts"],
  cluster: ["Clusters"],
};
/** What happens every second touches no more than it must. */
const OFTEN: Record<string, readonly string[]> = { "run.progress": ["Runs", "Run"] };

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
  const { isKept = false, ...rest } = options;
  return useQuery({
    queryKey: [operation.name, variables],
    queryFn: () => ask(operation, variables),
    ...(isKept && { placeholderData: keepPreviousData }),
    ...rest,
  });
}
/** `isKept` shows the last answer until the one to other variables is there. */
type AskOptions = {
  enabled?: boolean;
  refetchInterval?: number | false;
  notifyOnChangeProps?: typeof AGENTS.notifyOnChangeProps;
  isKept?: boolean;
};

/**
 * For answers that tell of agents, whose signs of life are no events. While the page is seen they are asked for again, and shown
 * again even if they are the same: an agent that says nothing is gone after a while.
 */
export const AGENTS: {
  refetchInterval: number;
  notifyOnChangeProps: ("data" | "error" | "isPending" | "dataUpdatedAt")[];
} = { refetchInterval: 20_000, notifyOnChangeProps: ["data", "error", "isPending", "dataUpdatedAt"] };

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
const eventListeners = new Set<(event: Event) => unknown>();

export function useIsLive(): boolean {
  return useSyncExternalStore(
    (tell) => {
      statusListeners.add(tell);
      return () => statusListeners.delete(tell);
    },
    () => isLive,
  );
}

export function useEvents(listen: (event: Event) => unknown): void {
  useEffect(() => {
    eventListeners.add(listen);
    return () => void eventListeners.delete(listen);
  }, [listen]);
}

/**
 * Follows the server for as long as somebody is signed in and looks.
 *
 * A browser has six connections for a server that speaks HTTP/1.1: windows that nobody sees must not hold them. Says whether it has
 * begun: what is asked for after that misses no event, and need not be asked for twice.
 */
export function useLive(): boolean {
  const [hasBegun, setHasBegun] = useState(false);
  useEffect(() => {
    let isFirst = true;
    const stale = batch((names) => refresh(client, names));
    const event = (event: Event) => {
      for (const name of OFTEN[event.kind] ?? TOUCHES[event.kind.split(".")[0] ?? ""] ?? []) stale.add(name);
      for (const listen of eventListeners) listen(event);
    };
    const status = (now: boolean) => {
      // What happened between two connections may be known to nobody here: ask for everything again.
      if (now && !isFirst) client.invalidateQueries();
      isFirst = false;
      setHasBegun(true);
      if (now === isLive) return;
      isLive = now;
      for (const tell of statusListeners) tell();
    };
    let stop: (() => void) | null = null;
    const look = () => {
      if (document.hidden) stop?.();
      stop = document.hidden ? null : (stop ?? follow({ event, status }));
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      stop?.();
      stale.stop();
    };
  }, []);
  return hasBegun;
}
