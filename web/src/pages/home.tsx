/** The first page: what the entity's queues do now, its projects, and what to do when there is nothing yet. */
import { Projects, Queues } from "../api/generated";
import { AGENTS, useAsk } from "../api/live";
import { Ago, Answer, Command, Empty, Heading } from "../parts/basic";
import { Icon } from "../parts/icon";
import { Link, pathOf } from "../router";
import { useText } from "../text";
import { useViewer } from "../viewer";
import { hasAgent, REGISTRY } from "./queue_data";
import { QueueCard } from "./queues";
import { projectsOf } from "./sidebar";

/** More queues than this are on their own page. */
const QUEUES_MAX = 4;

export function HomePage() {
  const t = useText();
  const { entity } = useViewer();
  const answer = useAsk(Projects, { entity });
  const queues = useAsk(Queues, { entity, project: REGISTRY }, AGENTS).data?.project?.runQueues ?? [];
  // Those that do something come first.
  const busy = ({ statistics: { pending, leased, claimed, running } }: (typeof queues)[number]) =>
    pending + leased + claimed + running;
  const shown = [...queues].sort((one, other) => busy(other) - busy(one) || Number(hasAgent(other)) - Number(hasAgent(one)));
  return (
    <>
      <header className="page-head">
        <div>
          <Heading>{entity}</Heading>
        </div>
      </header>
      <Answer of={answer}>
        {(data) => {
          const projects = projectsOf(data);
          if (projects.length === 0 && queues.length === 0) return <FirstSteps />;
          return (
            <>
              <section>
                <div className="panel-head">
                  <h2>{t.queues}</h2>
                  <Link to="/launch">{t.toAllQueues}</Link>
                </div>
                {queues.length === 0 ? (
                  <Empty icon="queue" title={t.noQueues} action={<CreateLink />}>
                    <p>{t.noQueuesText}</p>
                  </Empty>
                ) : (
                  <ul className="cards wide">
                    {shown.slice(0, QUEUES_MAX).map((queue) => (
                      <QueueCard key={queue.id} entity={entity} queue={queue} />
                    ))}
                  </ul>
                )}
              </section>
              <section>
                <h2>{t.projects}</h2>
                {projects.length === 0 && <p className="faint">{t.noProjectsHere}</p>}
                <ul className="cards">
                  {projects.map(({ name, createdAt, runCount }) => (
                    <li key={name}>
                      <Link to={pathOf(entity, name)} className="card">
                        <span className="card-title">
                          <Icon name="chart" /> {name}
                        </span>
                        <span className="faint">
                          {t.runCount(runCount ?? 0)} · {t.madeAgo} <Ago at={createdAt} />
                        </span>
                      </Link>
                    </li>
                  ))}
                </ul>
              </section>
            </>
          );
        }}
      </Answer>
    </>
  );
}

const CreateLink = () => {
  const t = useText();
  return (
    <Link className="button primary" to="/launch?open=queue">
      {t.createQueue}
    </Link>
  );
};

/** From nothing to a run; or how a script is pointed at this server. */
function FirstSteps() {
  const t = useText();
  return (
    <Empty icon="rocket" title={t.welcome} action={<CreateLink />}>
      <ol className="steps">
        {[t.stepQueue, t.stepAgent, t.stepLaunch].map((step) => (
          <li key={step}>{step}</li>
        ))}
      </ol>
      <p>{t.firstStepsText}</p>
      <Command text={`export WANDB_BASE_URL=${location.origin}\nwandb login`} />
    </Empty>
  );
}
