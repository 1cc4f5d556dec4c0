/** What a run was launched from and what became of it, as the server tells it. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { send } from "./client";
import { refresh } from "./live";

export type Where = { entity: string; project: string; run: string };

export type Stage = {
  name: "queued" | "starting" | "running";
  from: string;
  until: string | null;
  reason: string | null;
  attempt: number;
};
export type Timeline = { stages: Stage[]; end: { name: string; at: string } | null };

/** One pod of a gang, as its agent last saw it. */
export type Seat = {
  rank: number | null;
  role: string;
  label?: string;
  pod: string;
  node: string | null;
  phase: string | null;
  gpus: number;
  devices: string[];
};

export type Launched = {
  id: string;
  entity: string;
  queue: string;
  state: string;
  end: string | null;
  attempt: number;
  stop_asked: boolean;
  stop_by: string | null;
  spec: unknown;
  resolved_spec: unknown;
  values: Record<string, unknown> | null;
  priority: number;
  gpus: number;
  waiting: string | null;
  reason: string | null;
  queue_place: number | null;
  estimate_s: number | null;
  place: Seat[] | null;
  manifest: unknown;
  error: { message: string; stage: string } | null;
  warnings: { message: string; stage: string }[];
  agent: { name: string; silent_s: number } | null;
};
export type Story = { item: Launched | null; timeline: Timeline };

export const runPath = ({ entity, project, run }: Where): string =>
  `/api/v1/runs/${[entity, project, run].map(encodeURIComponent).join("/")}`;

export function useStory(where: Where) {
  return useQuery({
    queryKey: ["Story", where],
    queryFn: async () => (await send("GET", `${runPath(where)}/story`)) as Story,
  });
}

/** Asks for an item's end; its agent ends it. */
export function useStopItem() {
  const known = useQueryClient();
  return useMutation({
    networkMode: "always",
    mutationFn: (id: string) => send("POST", `/api/v1/items/${encodeURIComponent(id)}/stop`),
    onSuccess: () => refresh(known, ["Story", "Run"]),
  });
}
