/** The agents of a queue, and the command that starts one. */
import { type LaunchAgentRow, type QueueRow, StopAgent } from "../api/generated";
import { useDeed } from "../api/live";
import { Ago, Button, Command, Empty, Problem, State } from "../parts/basic";
import { type Column, Table } from "../parts/table";
import { useText } from "../text";
import { isActive } from "./queue_data";

export function AgentsTab({ entity, queue }: { entity: string; queue: QueueRow }) {
  const t = useText();
  const stop = useDeed(StopAgent, "Queue", "Queues");
  const columns: Column<LaunchAgentRow>[] = [
    { isName: true, title: t.agent, width: 2, show: (agent) => <span className="strong">{agent.name}</span> },
    {
      title: t.status,
      by: (agent) => agent.agentStatus,
      show: (agent) => <State name={isActive(agent) ? agent.agentStatus : "stopped"} />,
    },
    { title: t.host, by: (agent) => agent.hostname, show: (agent) => agent.hostname },
    { title: t.version, show: (agent) => agent.version ?? "–" },
    { title: t.heartbeat, by: (agent) => agent.heartbeatAt, show: (agent) => <Ago at={agent.heartbeatAt} /> },
    {
      title: t.deeds,
      isTitleHidden: true,
      width: 0.9,
      show: (agent) =>
        isActive(agent) &&
        queue.maySubmit && (
          <span className="row-deeds">
            <Button
              kind="quiet"
              icon="stop"
              disabled={agent.stopPolling ?? false}
              onClick={() => stop.mutate({ id: agent.id })}
              aria-label={t.stopAgent(agent.name)}
            >
              {agent.stopPolling ? t.stopping : t.stop}
            </Button>
          </span>
        ),
    },
  ];
  const isServed = queue.launchAgents.some(isActive);
  return (
    <>
      <Problem error={stop.error} />
      {queue.launchAgents.length > 0 && (
        <Table label={t.agents} columns={columns} rows={queue.launchAgents} id={(agent) => agent.id} />
      )}
      {isServed ? (
        <details>
          <summary>{t.addAgent}</summary>
          <Start entity={entity} queue={queue} />
        </details>
      ) : (
        <Empty icon="agent" title={t.noAgents}>
          <p>{t.noAgentsText}</p>
          <Start entity={entity} queue={queue} />
          <p className="faint">{t.agentAppears}</p>
        </Empty>
      )}
    </>
  );
}

/** Ours, and W&B's own, which serves the same queues. */
function Start({ entity, queue }: { entity: string; queue: QueueRow }) {
  const t = useText();
  const name = /^[\w.-]+$/.test(queue.name) ? queue.name : `'${queue.name}'`;
  return (
    <div className="starts-agent">
      <p className="label">{t.agentHere}</p>
      <Command text={`volley agent -q ${name} -e ${entity} --url ${location.origin}`} />
      <details>
        <summary className="small">{t.agentOfWandb}</summary>
        <Command text={`export WANDB_BASE_URL=${location.origin}\nwandb launch-agent -q ${name} -e ${entity} -j 1`} />
      </details>
    </div>
  );
}
