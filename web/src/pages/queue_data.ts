/** What the server tells of queues and items, read into what pages show. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { type Batch, batch } from "../api/batch";
import { ask } from "../api/client";
import { now } from "../api/clock";
import type { Event } from "../api/events";
import {
  type Config,
  type Item,
  Items,
  type ItemsData,
  type LaunchAgentRow,
  QueueItem,
  type QueueRow,
  type Variable,
} from "../api/generated";
import { useEvents } from "../api/live";

/** The project in which W&B's clients keep queues. */
export const REGISTRY = "model-registry";

/** An agent asks for work every few seconds; one that was silent for so long is gone. */
const SILENCE_MS_MAX = 120_000;

export const isActive = (agent: LaunchAgentRow): boolean =>
  agent.agentStatus !== "KILLED" && now() - new Date(agent.heartbeatAt ?? 0).getTime() < SILENCE_MS_MAX;

export const hasAgent = (queue: QueueRow): boolean => queue.launchAgents.some(isActive);

export const RESOURCES = [
  ["kubernetes", "Kubernetes"],
  ["local-container", "Docker"],
  ["local-process", "Process"],
  ["sagemaker", "SageMaker"],
  ["gcp-vertex", "Vertex AI"],
] as const;

export const resourceName = (resource: string | undefined): string =>
  RESOURCES.find(([name]) => name === resource)?.[1] ?? resource ?? "";

/** The part of a queue's config that people write; the server wraps it by resource. */
export function innerConfig(config: Config | null): unknown {
  if (!config) return {};
  const args = (config.config as { resource_args?: Record<string, unknown> } | null)?.resource_args ?? {};
  return args[config.resource] ?? args;
}

/** The part of a run spec that the page reads. */
export type Spec = {
  project?: string;
  job?: string;
  docker?: { docker_image?: string };
  image_uri?: string;
  name?: string;
  author?: string;
  resource_args?: Record<string, unknown>;
  overrides?: { args?: string[]; entry_point?: string[] | null; run_config?: Record<string, unknown> };
};
export const specOf = (item: Item): Spec => (item.runSpec ?? {}) as Spec;
export const imageOf = (spec: Spec): string => spec.docker?.docker_image ?? spec.image_uri ?? "";

/** How long an item has run, in milliseconds; null where it has not begun. */
export const durationOf = ({ startedAt, endedAt }: Pick<Item, "startedAt" | "endedAt">, now: number): number | null =>
  startedAt ? (endedAt ? Date.parse(endedAt) : now) - Date.parse(startedAt) : null;

export const isOver = (item: Item): boolean => item.state === "FINISHED" || item.state === "FAILED";

/** What people call an item's state (spec 2.2); without an agent nothing that waits will start. */
export function shownState(item: Item, hasAgent: boolean): string {
  if (item.end === "stopped") return "stopped";
  if (item.stopAsked) return "stopping";
  if (item.state === "PENDING") return hasAgent ? "queued" : "idle";
  return item.state === "LEASED" || item.state === "CLAIMED" ? "pending" : item.state.toLowerCase();
}

export const VARIABLE_TYPES = ["string", "integer", "number", "boolean", "quantity", "duration"] as const;
export type VariableType = (typeof VARIABLE_TYPES)[number];
export type Schema = {
  type: VariableType;
  minimum?: number;
  maximum?: number;
  enum?: unknown[];
  default?: unknown;
};
export const schemaOf = (variable: Variable): Schema => JSON.parse(variable.schema);

/** Whether its values are numbers; amounts such as 4Gi and 90s are texts. */
export const isNumeric = ({ type }: { type: VariableType }): boolean => type === "integer" || type === "number";

/** The number that somebody typed, in digits of any width; null where it is none. */
export function numberIn(text: string): number | null {
  const plain = text.normalize("NFKC").trim();
  const number = Number(plain);
  return plain !== "" && Number.isFinite(number) ? number : null;
}

/** What somebody typed for a variable, as the type that it should have; what does not fit is sent as it is, to be told why not. */
export function typed(text: string, schema: Schema): unknown {
  if (isNumeric(schema)) return numberIn(text) ?? text;
  return schema.type === "boolean" ? text === "true" : text;
}

/** More changed items than this at once are read as a list. */
const SINGLE_MAX = 20;

/** All items of a queue. A change of one is read alone, so that ten thousand others need not be. */
export function useItems(entity: string, queue: string) {
  const known = useQueryClient();
  const where = useMemo(() => ({ entity, project: REGISTRY, queue }), [entity, queue]);
  const changed = useMemo(() => {
    const queryKey = ["Items", where];
    const made: Batch = batch(async (ids) => {
      // A list that is being read may have read them already, as they were: they are asked for after it.
      if (known.isFetching({ queryKey }) > 0) return ids.forEach(made.add);
      if (ids.length > SINGLE_MAX) return known.invalidateQueries({ queryKey });
      const answers = await Promise.all(ids.map((id) => ask(QueueItem, { ...where, id })));
      const news = answers.flatMap((one) => one.project?.runQueue?.runQueueItem ?? []);
      known.setQueryData<Item[]>(queryKey, (before) => before && merge(before, ids, news));
    });
    return made;
  }, [known, where]);
  useEvents(useCallback((event: Event) => event.kind.startsWith("item.") && changed.add(event.subject), [changed]));
  // Comparing ten thousand old items with new ones, value by value, would stop the page for a moment.
  return useQuery({ queryKey: ["Items", where], queryFn: () => readAll(where), structuralSharing: false });
}

/** Items that were asked for again are as told now; what is no longer told of is gone. New ones come first. */
function merge(before: Item[], asked: string[], news: Item[]): Item[] {
  const [isAsked, byId] = [new Set(asked), new Map(news.map((item) => [item.id, item]))];
  const kept = before.flatMap((item) => (isAsked.has(item.id) ? (byId.get(item.id) ?? []) : item));
  const known = new Set(before.map((item) => item.id));
  return [...news.filter((item) => !known.has(item.id)), ...kept];
}

type ItemsPage = NonNullable<NonNullable<ItemsData["project"]>["runQueue"]>["runQueueItems"] | undefined;

/** Newest first. */
async function readAll(where: { entity: string; project: string; queue: string }): Promise<Item[]> {
  const items: Item[] = [];
  for (let after: string | null = null; ; ) {
    const page: ItemsPage = (await ask(Items, { ...where, after })).project?.runQueue?.runQueueItems;
    items.push(...(page?.edges.map(({ node }) => node) ?? []));
    if (!page?.pageInfo.hasNextPage) return items.reverse();
    after = page.pageInfo.endCursor;
  }
}
