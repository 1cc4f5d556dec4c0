/** The first page: the projects of the entity, and what to do when there is none. */
import { Projects } from "../api/generated";
import { useAsk } from "../api/live";
import { Ago, Answer, Command, Empty, Heading } from "../parts/basic";
import { Icon } from "../parts/icon";
import { Link, pathOf } from "../router";
import { useText } from "../text";
import { useViewer } from "../viewer";
import { projectsOf } from "./sidebar";

export function HomePage() {
  const t = useText();
  const { entity } = useViewer();
  const answer = useAsk(Projects, { entity });
  return (
    <>
      <header className="page-head">
        <div>
          <Heading>{t.projectsOf(entity)}</Heading>
          <p className="lead">{t.homeLead}</p>
        </div>
      </header>
      <Answer of={answer}>
        {(data) => {
          const projects = projectsOf(data);
          if (projects.length === 0) return <FirstSteps />;
          return (
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
          );
        }}
      </Answer>
    </>
  );
}

/** How a script is pointed at this server. */
function FirstSteps() {
  const t = useText();
  return (
    <Empty icon="rocket" title={t.firstStepsTitle}>
      <p>{t.firstStepsText}</p>
      <Command text={`export WANDB_BASE_URL=${location.origin}\nwandb login`} />
      <p>
        {t.firstStepsQueue} <Link to="/launch">{t.queues}</Link>
      </p>
    </Empty>
  );
}
