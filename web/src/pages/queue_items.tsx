/** The items of a queue, newest first: what each is, how it stands, and why it does not go on. */
import { useState } from "react";
import { type Item, type QueueRow, RemoveItem } from "../api/generated";
import { useDeed } from "../api/live";
import { Ago, Button, Empty, Problem, State } from "../parts/basic";
import { Drawer } from "../parts/drawer";
import { Icon } from "../parts/icon";
import { type Column, Table } from "../parts/table";
import { go, Link, pathOf, withSearch } from "../router";
import { useText } from "../text";
import { hasAgent, imageOf, shownState, specOf } from "./queue_data";

type Props = { entity: string; queue: QueueRow; items: Item[] };

export function ItemsTable({ entity, queue, items }: Props) {
  const t = useText();
  const [told, setTold] = useState<Item | null>(null);
  const remove = useDeed(RemoveItem, "Items", "Queues");
  const isActive = hasAgent(queue);
  if (items.length === 0)
    return (
      <Empty icon="rocket" title={t.noItems} action={<Launch queue={queue} />}>
        <p>{t.noItemsText}</p>
      </Empty>
    );
  const columns: Column<Item>[] = [
    { isName: true, title: t.run, width: 2.4, show: (item) => <Title item={item} entity={entity} /> },
    {
      title: t.status,
      width: 1.2,
      by: (item) => item.state,
      show: (item) => <Status item={item} isActive={isActive} onTell={() => setTold(item)} />,
    },
    { title: t.values, width: 1.4, show: (item) => <Values item={item} /> },
    { title: t.author, by: (item) => specOf(item).author, show: (item) => specOf(item).author },
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
    { title: t.submitted, by: (item) => item.createdAt, show: (item) => <Ago at={item.createdAt} /> },
    {
      title: t.deeds,
      width: 0.9,
      isTitleHidden: true,
      show: (item) => <Deeds item={item} queue={queue} onRemove={() => remove.mutate({ queue: queue.id, item: item.id })} />,
    },
  ];
  return (
    <>
      <Problem error={remove.error} />
      <Table
        label={t.runs}
        columns={columns}
        rows={items}
        id={(item) => item.id}
        text={(item) => JSON.stringify(item.runSpec) + (item.associatedRunId ?? "")}
      />
      {told && <Report item={told} onClose={() => setTold(null)} />}
    </>
  );
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

function Title({ item, entity }: { item: Item; entity: string }) {
  const spec = specOf(item);
  const project = spec.project ?? "";
  const hasRun = item.associatedRunId && item.state !== "LEASED";
  return (
    <span className="two-lines">
      {hasRun ? (
        <Link className="cut strong" to={pathOf(entity, project, "runs", item.associatedRunId ?? "")}>
          {titleOf(item)}
        </Link>
      ) : (
        <span className="cut strong">{titleOf(item)}</span>
      )}
      <span className="cut faint small">{[project, item.associatedRunId].filter(Boolean).join(" · ")}</span>
    </span>
  );
}

function Status({ item, isActive, onTell }: { item: Item; isActive: boolean; onTell: () => void }) {
  const t = useText();
  const told = item.error?.message ?? item.waitingFor ?? item.warnings?.at(-1)?.message;
  return (
    <span className="two-lines">
      <State name={shownState(item, isActive)} />
      {told && (
        <button type="button" className="why" onClick={onTell} title={told}>
          <Icon name="alert" /> <span className="cut">{told}</span>
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

function Deeds({ item, queue, onRemove }: { item: Item; queue: QueueRow; onRemove: () => void }) {
  const t = useText();
  const title = titleOf(item);
  const again = () => go(withSearch({ open: "launch", queue: queue.name, item: item.id }));
  return (
    <span className="row-deeds">
      <Button kind="quiet" icon="rocket" onClick={again} aria-label={t.launchAgainOf(title)} title={t.launchAgain} />
      {item.state === "PENDING" && (
        <Button kind="quiet" icon="trash" onClick={onRemove} aria-label={t.removeItem(title)} title={t.remove} />
      )}
    </span>
  );
}

function Report({ item, onClose }: { item: Item; onClose: () => void }) {
  const t = useText();
  const waiting = item.waitingFor ? [{ message: item.waitingFor, stage: t.states.queued }] : [];
  const reports = [...(item.error ? [item.error] : []), ...waiting, ...(item.warnings ?? [])];
  return (
    <Drawer kind="dialog" title={titleOf(item)} onClose={onClose}>
      {reports.map(({ message, stage }) => (
        <div key={stage + message} className="report">
          <p className="faint small">
            {t.stage}: {stage}
          </p>
          <pre>{message}</pre>
        </div>
      ))}
    </Drawer>
  );
}
