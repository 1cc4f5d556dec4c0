/** The queue item that a run came from, if it came from one. */
import { type Item, QueueItem } from "../api/generated";
import { useAsk } from "../api/live";
import { REGISTRY } from "./queue_data";
import type { RunDetails, Where } from "./run";
import { traceOf } from "./run_data";

export function useItemOf({ entity }: Where, run: RunDetails): { item: Item; queue: string } | null {
  const trace = traceOf(run.config);
  const answer = useAsk(
    QueueItem,
    { entity, project: REGISTRY, queue: trace?.queue ?? "", id: trace?.item ?? "" },
    { enabled: trace !== null },
  );
  const item = answer.data?.project?.runQueue?.runQueueItem;
  return item && trace ? { item, queue: trace.queue } : null;
}
