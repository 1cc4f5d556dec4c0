/** The items of a queue, newest first: what each is, how it stands, where in the line, and why it does not go on. */
import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense, useMemo, useState } from "react";
import { send } from "../api/client";
import { now } from "../api/clock";
import { type Item, Places, type PlacesData, type QueueRow, RemoveItem } from "../api/generated";
import { AGENTS, client, refresh, useAsk, useDeed } from "../api/live";
import { Ago, Button, Duration, durationText, Empty, Problem, State } from "../parts/basic";
import { Segmented } from "../parts/form";
import { Icon } from "../parts/icon";
import { type Column, Table } from "../parts/table";
import { go, Link, pathOf, withSearch } from "../router";
import { useText } from "../text";
import { durationOf, hasAgent, imageOf, isOver, REGISTRY, shownState, specOf } from "./queue_data";

const ItemDrawer = lazy(() => import("./queue_item"));

type Props = { entity: string; queue: QueueRow; items: Item[] };
export type Standing = NonNullable<NonNullable<PlacesData["project"]>["runQueue"]>["places"][number];

/** So many of those that wait are told their place; the rest is far from starting. */
const PLACES_MAX = 200;
type Filter = "all" | "open" | "ended";

export function ItemsTable({ entity, queue, items }: Props) {
  const t = useText();
  const [told, setTold] = useState<string | null>(null);
  const [filter, setFilter] = useState<Filter>("all");
  const remove = useDeed(RemoveItem, "Items", "Queues");
  const stop = useMutation({
    mutationFn: (item: Item) => send("POST", `/api/v1/items/${encodeURIComponent(item.id)}/stop`),
    onSuccess: () => refresh(client, ["Queues", "Places"]),
  });
  const places = usePlaces(entity, queue.name, items);
  const isActive = hasAgent(queue);
  const rows = useMemo(
    () => (filter === "all" ? items : items.filter((item) => isOver(item) === (filter === "ended"))),
    [items, filter],
  );
  if (items.length === 0)
    return (
      <Empty icon="rocket" title={t.noItems} action={queue.maySubmit && <Launch queue={queue} />}>
        <p>{t.noItemsText}</p>
      </Empty>
    );
  const columns: Column<Item>[] = [
    {
      isName: true,
      title: t.run,
      width: 2,
      by: titleOf,
      show: (item) => <Title item={item} entity={entity} onTell={() => setTold(item.id)} />,
    },
    {
      title: t.status,
      width: 2.7,
      by: (item) => shownState(item, isActive),
      show: (item) => <Status item={item} isActive={isActive} standing={places.get(item.id)} onTell={() => setTold(item.id)} />,
    },
    { title: t.values, width: 1.1, show: (item) => <Values item={item} /> },
    { title: t.author, width: 0.8, by: (item) => specOf(item).author, show: (item) => specOf(item).author },
    ...(queue.prioritizationMode === "V0"
      ? [
          {
            title: t.priority,
            width: 0.8,
            by: (item: Item) => item.priority,
            show: (item: Item) => t.priorities[item.priority ?? 2],
          },
        ]
      : []),
    { title: t.submitted, width: 1, by: (item) => item.createdAt, show: (item) => <Ago at={item.createdAt} /> },
    {
      title: t.duration,
      width: 1.05,
      isNumber: true,
      by: (item) => durationOf(item, now()),
      show: (item) => <Duration from={item.startedAt} to={item.endedAt} />,
    },
    {
      title: t.deeds,
      width: 0.9,
      isTitleHidden: true,
      show: (item) => (
        <Deeds
          item={item}
          queue={queue}
          onRemove={() => remove.mutate({ queue: queue.id, item: item.id })}
          onStop={() => stop.mutate(item)}
        />
      ),
    },
  ];
  const filters = (
    <Segmented
      label={t.status}
      value={filter}
      choices={[
        ["all", t.all],
        ["open", t.stillOpen],
        ["ended", t.ended],
      ]}
      onChoose={setFilter}
    />
  );
  const shown = items.find((item) => item.id === told);
  return (
    <>
      <Problem error={remove.error ?? stop.error} />
      <Table
        label={t.runs}
        columns={columns}
        rows={rows}
        id={(item) => item.id}
        text={(item) => JSON.stringify(item.runSpec) + (item.associatedRunId ?? "")}
        tools={filters}
      />
      {shown && (
        <Suspense>
          <ItemDrawer entity={entity} queue={queue} item={shown} standing={places.get(shown.id)} onClose={() => setTold(null)} />
        </Suspense>
      )}
    </>
  );
}

/** The line of the queue; not asked for where nothing waits. */
function usePlaces(entity: string, queue: string, items: Item[]): Map<string, Standing> {
  const isAnyWaiting = useMemo(() => items.some(({ state }) => state === "PENDING"), [items]);
  const where = { entity, project: REGISTRY, queue, first: PLACES_MAX };
  const answer = useAsk(Places, where, { ...AGENTS, enabled: isAnyWaiting });
  const places = answer.data?.project?.runQueue?.places;
  return useMemo(() => new Map((isAnyWaiting ? places : [])?.map((one) => [one.itemId, one])), [places, isAnyWaiting]);
}

const Launch = ({ queue }: { queue: QueueRow }) => {
  const t = useText();
  return (
    <Button kind="primary" icon="rocket" onClick={() => go(withSearch({ open: "launch", queue: queue.name }))}>
      {t.launchDeed}
    </Button>
  );
};

/** A job has its name, an image its reference without the registry; a run that has begun is linked. */
export const titleOf = (item: Item): string => {
  const spec = specOf(item);
  return spec.name || spec.job?.split("/").at(-1) || imageOf(spec).split("/").at(-1) || item.id;
};

export const runPath = (item: Item, entity: string): string | null =>
  item.associatedRunId && item.state !== "LEASED" && item.state !== "PENDING"
    ? pathOf(entity, specOf(item).project ?? "", "runs", item.associatedRunId)
    : null;

function Title({ item, entity, onTell }: { item: Item; entity: string; onTell: () => void }) {
  const run = runPath(item, entity);
  return (
    <span className="two-lines">
      {run ? (
        <Link className="cut strong" to={run}>
          {titleOf(item)}
        </Link>
      ) : (
        <button type="button" className="as-link cut strong" onClick={onTell}>
          {titleOf(item)}
        </button>
      )}
      <span className="cut faint small">{[specOf(item).project, item.associatedRunId].filter(Boolean).join(" · ")}</span>
    </span>
  );
}

type StatusProps = { item: Item; isActive: boolean; standing: Standing | undefined; onTell: () => void };

function Status({ item, isActive, standing, onTell }: StatusProps) {
  const t = useText();
  const told = item.error?.message ?? standing?.reason ?? item.waitingFor ?? item.warnings?.at(-1)?.message;
  return (
    <span className="two-lines">
      <span className="badges">
        <State name={shownState(item, isActive)} />
        {item.attempt > 0 && <span className="faint small">{t.attempt(item.attempt + 1)}</span>}
        {standing && (
          <span className="faint small">
            {t.place(standing.place)}
            {standing.startsInSeconds !== null && ` · ${t.startsIn(durationText(t, standing.startsInSeconds))}`}
          </span>
        )}
      </span>
      {told && (
        <button type="button" className="why" onClick={onTell} title={told}>
          <Icon name={item.error ? "alert" : "clock"} /> <span className="cut">{told}</span>
          <span className="sr-only">{t.more}</span>
        </button>
      )}
    </span>
  );
}

function Values({ item }: { item: Item }) {
  const values = Object.entries((item.templateVariableValues ?? {}) as Record<string, unknown>);
  return (
    <span className="badges">
      {values.map(([name, value]) => (
        <code key={name} className="chip">
          {name} {String(value)}
        </code>
      ))}
    </span>
  );
}

type DeedsProps = { item: Item; queue: QueueRow; onRemove: () => void; onStop: () => void };

function Deeds({ item, queue, onRemove, onStop }: DeedsProps) {
  const t = useText();
  const title = titleOf(item);
  const again = () => go(withSearch({ open: "launch", queue: queue.name, item: item.id }));
  return (
    <span className="row-deeds">
      {queue.maySubmit && (
        <Button kind="quiet" icon="rocket" onClick={again} aria-label={t.launchAgainOf(title)} title={t.launchAgain} />
      )}
      {queue.maySubmit && item.state === "PENDING" && (
        <Button kind="quiet" icon="trash" onClick={onRemove} aria-label={t.removeItem(title)} title={t.remove} />
      )}
      {queue.maySubmit && item.state !== "PENDING" && !isOver(item) && !item.stopAsked && (
        <Button kind="quiet" icon="stop" onClick={onStop} aria-label={t.stopItem(title)} title={t.stop} />
      )}
    </span>
  );
}
