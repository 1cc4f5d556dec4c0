/** The way around: queues, the projects of the chosen entity, settings. */
import { signOut } from "../api/client";
import { Projects } from "../api/generated";
import { useAsk } from "../api/live";
import { Mark } from "../app";
import { Button } from "../parts/basic";
import { Icon } from "../parts/icon";
import { go, Link, pathOf } from "../router";
import { useText } from "../text";
import { useViewer } from "../viewer";
import { REGISTRY } from "./queue_data";

/** More projects than this are reached from the home page. */
const PROJECTS_MAX = 12;

export function Sidebar({ isOpen, path, values }: { isOpen: boolean; path: string; values: Record<string, string> }) {
  const t = useText();
  const { username, entities, entity, choose } = useViewer();
  const answer = useAsk(Projects, { entity });
  const projects = projectsOf(answer.data);
  const current = values.project && values.entity === entity ? values.project : null;
  const is = (where: string) => (path === where || path.startsWith(`${where}/`) ? "page" : undefined);
  const change = (name: string) => {
    choose(name);
    if (path !== "/launch" && path !== "/cluster") go("/");
  };
  return (
    <aside className={`side ${isOpen ? "open" : ""}`}>
      <Link to="/" className="brand">
        <Mark /> Volley
      </Link>
      <label className="entity">
        <span className="sr-only">{t.entity}</span>
        <select value={entity} onChange={(event) => change(event.target.value)}>
          {entities.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <nav aria-label={t.mainMenu}>
        <Link to="/" aria-current={path === "/" ? "page" : undefined}>
          <Icon name="home" /> {t.home}
        </Link>
        <Link to="/launch" aria-current={is("/launch")}>
          <Icon name="queue" /> {t.queues}
        </Link>
        <Link to="/cluster" aria-current={is("/cluster")}>
          <Icon name="cluster" /> {t.cluster}
        </Link>
        <h2>{t.projects}</h2>
        {projects.slice(0, PROJECTS_MAX).map(({ name }) => (
          <div key={name}>
            <Link to={pathOf(entity, name)} aria-current={current === name && !path.includes("/jobs") ? "page" : undefined}>
              <Icon name="run" /> <span className="cut">{name}</span>
            </Link>
            {current === name && (
              <Link
                to={pathOf(entity, name, "jobs")}
                className="inner"
                aria-current={path.includes("/jobs") ? "page" : undefined}
              >
                <Icon name="job" /> {t.jobs}
              </Link>
            )}
          </div>
        ))}
        {answer.isSuccess && projects.length === 0 && <p className="faint small">{t.noProjectsYet}</p>}
      </nav>
      <div className="side-foot">
        <Link to="/settings" aria-current={is("/settings")}>
          <Icon name="settings" /> {t.settings}
        </Link>
        <Button kind="quiet" icon="out" onClick={signOut}>
          {t.signOut}
          <span className="faint cut">{username}</span>
        </Button>
      </div>
    </aside>
  );
}

/** Projects that people made; queues live in one of their own, which has no runs. */
export function projectsOf(
  data: { models: { edges: { node: { name: string; createdAt: string; runCount: number | null } | null }[] } | null } | undefined,
) {
  return (data?.models?.edges ?? []).flatMap(({ node }) => (node && node.name !== REGISTRY ? [node] : []));
}
