/** The agents of a queue, and the command that starts one. */
import type { LaunchAgentRow, QueueRow } from "../api/generated";
import { Ago, Command, Empty, State } from "../parts/basic";
import { type Column, Table } from "../parts/table";
import { useText } from "../text";
import { isActive } from "./queue_data";

export function AgentsTab({ entity, queue }: { entity: string; queue: QueueRow }) {
  const t = useText();
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
  ];
  const start = `export WANDB_BASE_URL=${location.origin}\nwandb launch-agent -q ${queue.name} -e ${entity} -j 1`;
  return (
    <>
      {queue.launchAgents.length > 0 && (
        <Table label={t.agents} columns={columns} rows={queue.launchAgents} id={(agent) => agent.id} />
      )}
      {!queue.launchAgents.some(isActive) && (
        <Empty icon="agent" title={t.noAgents}>
          <p>{t.noAgentsText}</p>
          <Command text={start} />
          <p className="faint">{t.agentAppears}</p>
        </Empty>
      )}
    </>
  );
}
