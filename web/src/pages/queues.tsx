/** Launch: the queues of the entity, what waits and runs in each, and the drawer that makes one. */
import { lazy, Suspense } from "react";
import { Queues, type QueuesData } from "../api/generated";
import { AGENTS, useAsk } from "../api/live";
import { Answer, Badge, Button, Empty, Heading, State } from "../parts/basic";
import { go, Link, pathOf, useSearch, withSearch } from "../router";
import { useText } from "../text";
import { useViewer } from "../viewer";
import { hasAgent, REGISTRY, resourceName } from "./queue_data";

const CreateQueue = lazy(() => import("./create_queue"));
type Row = NonNullable<QueuesData["project"]>["runQueues"][number];

export function QueuesPage() {
  const t = useText();
  const { entity } = useViewer();
  const answer = useAsk(Queues, { entity, project: REGISTRY }, AGENTS);
  const open = useSearch().get("open");
  const create = (
    <Button kind="primary" icon="plus" onClick={() => go(withSearch({ open: "queue" }))}>
      {t.createQueue}
    </Button>
  );
  return (
    <>
      <header className="page-head">
        <div>
          <Heading>{t.launch}</Heading>
          <p className="lead">{t.queuesLead}</p>
        </div>
        {create}
      </header>
      <Answer of={answer}>
        {({ project }) => {
          const queues = project?.runQueues ?? [];
          if (queues.length === 0)
            return (
              <Empty icon="queue" title={t.noQueues} action={create}>
                <p>{t.noQueuesText}</p>
              </Empty>
            );
          return (
            <ul className="cards wide">
              {queues.map((queue) => (
                <QueueCard key={queue.id} entity={entity} queue={queue} />
              ))}
            </ul>
          );
        }}
      </Answer>
      {open === "queue" && (
        <Suspense>
          <CreateQueue onClose={() => go(withSearch({ open: null }), "replace")} />
        </Suspense>
      )}
    </>
  );
}

export function QueueCard({ entity, queue }: { entity: string; queue: Row }) {
  const t = useText();
  const { pending, leased, claimed, running, finished, failed } = queue.statistics;
  const figures = [
    [t.states.queued, pending],
    [t.states.pending, leased + claimed],
    [t.states.running, running],
    [t.states.finished, finished],
    [t.states.failed, failed],
  ] as const;
  return (
    <li>
      <Link to={pathOf("launch", entity, queue.name)} className="card queue-card">
        <span className="card-title">
          {queue.name}
          <State name={hasAgent(queue) ? "active" : "idle"} />
        </span>
        <span className="badges">
          <Badge>{resourceName(queue.defaultResourceConfig?.resource)}</Badge>
          {queue.prioritizationMode === "V0" && <Badge>{t.prioritised}</Badge>}
          {queue.defaultResourceConfig?.templateVariables.map(({ name }) => (
            <code key={name} className="chip">{`{{${name}}}`}</code>
          ))}
        </span>
        <span className="figures">
          {figures.map(([name, number]) => (
            <span key={name} className={number === 0 ? "none" : ""}>
              <strong>{number}</strong>
              {name}
            </span>
          ))}
        </span>
        <span className="faint small">{t.madeBy(queue.createdBy ?? "")}</span>
      </Link>
    </li>
  );
}
