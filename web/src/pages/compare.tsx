/** Several runs beside each other: their curves in the same charts. */
import { useQueries } from "@tanstack/react-query";
import { ask } from "../api/client";
import { Run } from "../api/generated";
import { Answer, Heading, State } from "../parts/basic";
import { COLOURS } from "../parts/colours";
import { Link, pathOf, useSearch } from "../router";
import { useText } from "../text";
import { Charts } from "./run_charts";
import { nameOf, stateOf } from "./run_data";

/** As many as there are colours to tell them apart. */
const RUNS_MAX = COLOURS.length;

export default function ComparePage({ entity, project }: { entity: string; project: string }) {
  const t = useText();
  const names = (useSearch().get("runs") ?? "").split(",").filter(Boolean).slice(0, RUNS_MAX);
  const answer = useQueries({
    queries: names.map((run) => ({
      queryKey: ["Run", { entity, project, run }],
      queryFn: () => ask(Run, { entity, project, run }),
    })),
    combine: (all) => ({
      data: all.every(({ data }) => data) ? all.flatMap(({ data }) => data?.project?.run ?? []) : undefined,
      error: all.find(({ error }) => error)?.error ?? null,
      isPending: all.some(({ isPending }) => isPending),
    }),
  });
  return (
    <>
      <header className="page-head">
        <div>
          <Link to={pathOf(entity, project)} className="back">
            {entity} / {project}
          </Link>
          <Heading>{t.comparing(names.length)}</Heading>
        </div>
      </header>
      <Answer of={answer}>
        {(runs) => (
          <>
            <ul className="legend">
              {runs.map((run, index) => (
                <li key={run.name}>
                  <span className="swatch" style={{ background: COLOURS[index % COLOURS.length] }} />
                  <Link to={pathOf(entity, project, "runs", run.name)}>{nameOf(run)}</Link>
                  <State name={stateOf(run)} />
                </li>
              ))}
            </ul>
            <Charts runs={runs.map((run) => ({ run, where: { entity, project, run: run.name } }))} />
          </>
        )}
      </Answer>
    </>
  );
}
