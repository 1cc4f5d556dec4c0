/** One queue: its runs, agents, config and figures. */
import { lazy, Suspense, useState } from "react";
import { DeleteQueues, Queue, type QueueRow } from "../api/generated";
import { AGENTS, useAsk, useDeed } from "../api/live";
import { Answer, Badge, Button, Heading, Problem, State } from "../parts/basic";
import { Confirm } from "../parts/drawer";
import { Icon } from "../parts/icon";
import { Tabs } from "../parts/tabs";
import { go, Link, pathOf, withSearch } from "../router";
import { useText } from "../text";
import { LaunchFromSearch } from "./launch_place";
import { AgentsTab } from "./queue_agents";
import { hasAgent, REGISTRY, resourceName, useItems } from "./queue_data";
import { ItemsTable } from "./queue_items";

const ConfigTab = lazy(() => import("./queue_config"));
const MonitorTab = lazy(() => import("./queue_monitor"));

export function QueuePage({ entity, queue: name, tab }: { entity: string; queue: string; tab: string }) {
  const t = useText();
  const answer = useAsk(Queue, { entity, project: REGISTRY, queue: name }, AGENTS);
  return (
    <Answer of={answer}>
      {({ project }) =>
        project?.runQueue ? (
          <Shown key={project.runQueue.id} entity={entity} queue={project.runQueue} tab={tab} />
        ) : (
          <Heading>{t.noSuchQueue(name)}</Heading>
        )
      }
    </Answer>
  );
}

function Shown({ entity, queue, tab }: { entity: string; queue: QueueRow; tab: string }) {
  const t = useText();
  const items = useItems(entity, queue.name);
  const [isDeleting, setIsDeleting] = useState(false);
  const remove = useDeed(DeleteQueues, "Queues");
  const isActive = hasAgent(queue);
  const at = (part: string) => pathOf("launch", entity, queue.name, part);
  const tabs = [
    { name: "runs", title: t.runs, to: at("runs"), count: items.data?.length ?? null },
    { name: "agents", title: t.agents, to: at("agents"), count: queue.launchAgents.length },
    { name: "config", title: t.config, to: at("config") },
    { name: "monitor", title: t.monitor, to: at("monitor") },
  ];
  return (
    <>
      <header className="page-head">
        <div>
          <Link to="/launch" className="back">
            <Icon name="back" /> {t.queues}
          </Link>
          <Heading>{queue.name}</Heading>
          <p className="badges">
            <State name={isActive ? "active" : "idle"} />
            <Badge>{resourceName(queue.defaultResourceConfig?.resource)}</Badge>
            {queue.prioritizationMode === "V0" && <Badge>{t.prioritised}</Badge>}
            <span className="faint">
              {entity} · {t.madeBy(queue.createdBy ?? "")}
            </span>
          </p>
        </div>
        <div className="deeds">
          {queue.mayManage && (
            <Button kind="quiet" icon="trash" onClick={() => setIsDeleting(true)}>
              {t.delete}
            </Button>
          )}
          {queue.maySubmit && (
            <Button kind="primary" icon="rocket" onClick={() => go(withSearch({ open: "launch", queue: queue.name }))}>
              {t.launchDeed}
            </Button>
          )}
        </div>
      </header>
      {!isActive && tab !== "agents" && (
        <div className="notice warn">
          <Icon name="agent" />
          <p>{t.noAgentServes}</p>
          <Link className="button plain" to={at("agents")}>
            {t.addAgent}
          </Link>
        </div>
      )}
      <Tabs label={t.partsOf(queue.name)} tabs={tabs} current={tab} />
      <Suspense>
        {tab === "runs" && <Answer of={items}>{(rows) => <ItemsTable entity={entity} queue={queue} items={rows} />}</Answer>}
        {tab === "agents" && <AgentsTab entity={entity} queue={queue} />}
        {tab === "config" && <ConfigTab entity={entity} queue={queue} />}
        {tab === "monitor" && <Answer of={items}>{(rows) => <MonitorTab entity={entity} queue={queue} items={rows} />}</Answer>}
      </Suspense>
      <LaunchFromSearch entity={entity} project={null} />
      {isDeleting && (
        <Confirm
          title={t.deleteQueue(queue.name)}
          text={t.deleteQueueText(items.data?.filter(({ state }) => state === "PENDING").length ?? 0)}
          deed={t.delete}
          onYes={() => remove.mutate({ ids: [queue.id] }, { onSuccess: () => go("/launch") })}
          onNo={() => setIsDeleting(false)}
          isBusy={remove.isPending}
          error={<Problem error={remove.error} />}
        />
      )}
    </>
  );
}
