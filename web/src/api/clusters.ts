/** Clusters as their agents see them. */
import { useQuery } from "@tanstack/react-query";
import { send } from "./client";
import { AGENTS } from "./live";

export type Work = {
  id: string;
  queue: string;
  entity: string;
  user: string;
  run: { entity: string; project: string; name: string } | null;
  name: string | null;
};
/** Work that one may not see has neither name nor place. */
export type Holder = { pod?: string; namespace?: string; gpus: number; work?: Work; is_hidden?: boolean };
export type Gpu = {
  id: string | null;
  held_by: number[];
  utilisation_percent: number | null;
  memory_used_mib: number | null;
  memory_total_mib: number | null;
  is_healthy: boolean;
};
type Share = { held: number; total: number };
export type Node = {
  name: string;
  state: "ready" | "cordoned" | "lost";
  product: string | null;
  is_pretended: boolean;
  gpus: Gpu[];
  cpu: Share;
  memory: Share;
  pods: Holder[];
};
export type Waiting = {
  name?: string;
  namespace?: string;
  pods: number;
  gpus: number;
  since: string;
  reason?: string;
  work?: Work;
  is_hidden?: boolean;
};
export type ClusterEvent = {
  at: string;
  is_warning: boolean;
  reason: string;
  namespace: string;
  about: string;
  message: string;
};
export type Picture = { nodes: Node[]; nodes_total: number; waiting: Waiting[]; events: ClusterEvent[] };
export type Cluster = {
  cluster: string;
  at: string;
  is_live: boolean;
  agents: { name: string; host: string; is_live: boolean }[];
  picture: Picture;
};
export type Queued = {
  id: string;
  entity: string;
  queue: string;
  name: string | null;
  user: string;
  gpus: number;
  created: string;
  reason: string;
  queue_place: number;
};

export function useClusters(entity: string) {
  return useQuery({
    queryKey: ["Clusters", entity],
    queryFn: async () =>
      (await send("GET", `/api/v1/clusters?entity=${encodeURIComponent(entity)}`)) as { clusters: Cluster[]; queued: Queued[] },
    ...AGENTS,
  });
}
