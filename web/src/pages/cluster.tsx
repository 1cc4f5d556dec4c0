/** The cluster: nodes and their GPUs as a heat map, who holds what, what waits and the one reason, what happened last. */
import { useState } from "react";
import { type Cluster, type Queued, useClusters, type Waiting, type Work } from "../api/clusters";
import { Ago, Answer, Badge, Command, Empty, Heading } from "../parts/basic";
import { Icon } from "../parts/icon";
import { Link, pathOf } from "../router";
import { useText } from "../text";
import { useViewer } from "../viewer";
import { HeatMap, Holders } from "./cluster_nodes";

/** Events that one sees before one asks for more. */
const EVENTS_SHOWN = 12;

export default function ClusterPage() {
  const t = useText();
  const { entity } = useViewer();
  const answer = useClusters(entity);
  return (
    <>
      <header className="page-head">
        <div>
          <Heading>{t.cluster}</Heading>
          <Lead clusters={answer.data?.clusters ?? []} />
        </div>
      </header>
      <Answer of={answer}>
        {({ clusters, queued }) =>
          clusters.length === 0 ? (
            <>
              <Empty icon="cluster" title={t.clusterNone}>
                <p>{t.clusterNoneText}</p>
                <Command text={`volley agent -e ${entity} -q QUEUE`} />
              </Empty>
              {queued.length > 0 && <WaitingPanel gangs={[]} queued={queued} />}
            </>
          ) : (
            clusters.map((cluster, index) => (
              <OneCluster
                key={cluster.cluster}
                cluster={cluster}
                queued={index === 0 ? queued : []}
                isAlone={clusters.length === 1}
              />
            ))
          )
        }
      </Answer>
    </>
  );
}

function Lead({ clusters }: { clusters: Cluster[] }) {
  const t = useText();
  const nodes = clusters.reduce((sum, { picture }) => sum + picture.nodes_total, 0);
  const gpus = clusters.flatMap(({ picture }) => picture.nodes).reduce((sum, node) => sum + node.gpus.length, 0);
  return clusters.length > 0 && <p className="lead">{t.clusterLead(nodes, gpus)}</p>;
}

function OneCluster({ cluster, queued, isAlone }: { cluster: Cluster; queued: Queued[]; isAlone: boolean }) {
  const t = useText();
  const { picture, agents } = cluster;
  return (
    <>
      {!isAlone && <h2>{agents.map(({ host, name }) => host || name).join(", ")}</h2>}
      {!cluster.is_live && (
        <div className="notice warn">
          <Icon name="alert" />
          <p>
            {t.clusterSilent} <Ago at={cluster.at} />
          </p>
        </div>
      )}
      <Figures cluster={cluster} queued={queued} />
      <HeatMap nodes={picture.nodes} total={picture.nodes_total} />
      <div className="overview">
        <WaitingPanel gangs={picture.waiting} queued={queued} />
        <Holders nodes={picture.nodes} />
      </div>
      <Events events={picture.events} />
    </>
  );
}

function Figures({ cluster, queued }: { cluster: Cluster; queued: Queued[] }) {
  const t = useText();
  const { nodes, waiting } = cluster.picture;
  const gpus = nodes.flatMap((node) => node.gpus);
  const held = gpus.filter((gpu) => gpu.held_by.length > 0).length;
  const measured = gpus.flatMap(({ utilisation_percent }) => utilisation_percent ?? []);
  const mean = measured.reduce((sum, value) => sum + value, 0) / (measured.length || 1);
  const used = gpus.reduce((sum, gpu) => sum + (gpu.memory_used_mib ?? 0), 0);
  const all = gpus.reduce((sum, gpu) => sum + (gpu.memory_total_mib ?? 0), 0);
  const figures: [string, string, boolean][] = [
    [t.gpusHeld, `${held} / ${gpus.length}`, false],
    [t.utilisation, measured.length > 0 ? `${Math.round(mean)} %` : t.notTold, measured.length === 0],
    [t.memory, all > 0 ? memoryText(used, all) : t.notTold, all === 0],
    [t.nodesReady, `${nodes.filter(({ state }) => state === "ready").length} / ${nodes.length}`, false],
    [t.waitingCount, String(waiting.length + queued.length), false],
  ];
  return (
    <dl className="panel cluster-figures">
      {figures.map(([name, value, isMissing]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className={isMissing ? "faint" : ""}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Both in the unit that the whole asks for. */
function memoryText(used: number, all: number): string {
  const [size, unit] = all >= 2 ** 20 ? [2 ** 20, "TiB"] : [2 ** 10, "GiB"];
  const show = (mib: number) => (mib / size).toFixed(all / size < 100 ? 1 : 0);
  return `${show(used)} / ${show(all)} ${unit}`;
}

/** Whose work it is, with a link to its run where there is one. */
export function WorkName({ work, fallback }: { work: Work | undefined; fallback: string }) {
  if (!work) return <span className="strong cut">{fallback}</span>;
  const name = work.name ?? work.run?.name ?? fallback;
  return work.run ? (
    <Link className="strong cut" to={pathOf(work.run.entity, work.run.project, "runs", work.run.name)}>
      {name}
    </Link>
  ) : (
    <Link className="strong cut" to={pathOf("launch", work.entity, work.queue)}>
      {name}
    </Link>
  );
}

function WaitingPanel({ gangs, queued }: { gangs: Waiting[]; queued: Queued[] }) {
  const t = useText();
  return (
    <section className="panel">
      <h2>{t.thoseWaiting}</h2>
      {gangs.length + queued.length === 0 && <p className="faint">{t.nobodyWaits}</p>}
      <ul className="waiting">
        {gangs.map((gang) => (
          <li key={`${gang.namespace}/${gang.name}/${gang.since}`}>
            <p className="waiting-head">
              <WorkName work={gang.work} fallback={gang.is_hidden ? t.somebodyElse : `${gang.namespace}/${gang.name}`} />
              <span className="badge">{t.podsOf(gang.pods)}</span>
              {gang.gpus > 0 && <span className="badge">{t.gpusOf(gang.gpus)}</span>}
              <span className="faint small">
                <Ago at={gang.since} />
              </span>
            </p>
            {gang.reason && <p className="wait">{gang.reason}</p>}
          </li>
        ))}
        {queued.map((item) => (
          <li key={item.id}>
            <p className="waiting-head">
              <Link className="strong cut" to={pathOf("launch", item.entity, item.queue)}>
                {item.name ?? item.queue}
              </Link>
              <Badge>{t.inQueuePlace(item.queue_place, item.queue)}</Badge>
              <span className="faint small">
                {item.user} · <Ago at={item.created} />
              </span>
            </p>
            <p className="wait">{item.reason}</p>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Events({ events }: { events: Cluster["picture"]["events"] }) {
  const t = useText();
  const [isWhole, setIsWhole] = useState(false);
  const shown = isWhole ? events : events.slice(0, EVENTS_SHOWN);
  return (
    <section className="panel">
      <h2>{t.clusterEvents}</h2>
      {events.length === 0 && <p className="faint">{t.eventsNone}</p>}
      <ul className="events">
        {shown.map((event) => (
          <li key={event.at + event.about + event.reason + event.message} className={event.is_warning ? "warning" : ""}>
            <span className="faint small">
              <Ago at={event.at} />
            </span>
            <span className="event-reason">{event.reason}</span>
            <span className="event-words">
              <code>{event.about}</code> {event.message}
            </span>
          </li>
        ))}
      </ul>
      {shown.length < events.length && (
        <button type="button" className="button quiet" onClick={() => setIsWhole(true)}>
          {t.showMore(shown.length, events.length)}
        </button>
      )}
    </section>
  );
}
