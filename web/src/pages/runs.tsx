/** The runs of a project, live: filter, sort, choose some to compare. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ask } from "../api/client";
import { type RunRow, Runs } from "../api/generated";
import { Ago, Answer, Button, Command, Duration, Empty, Heading, State } from "../parts/basic";
import { SelectField } from "../parts/form";
import { type Column, Table } from "../parts/table";
import { go, Link, pathOf, withSearch } from "../router";
import { useText } from "../text";
import { LaunchFromSearch } from "./launch_place";
import { brief, endOf, nameOf, plainConfig, plainSummary, stateOf } from "./run_data";

/** So many values of configs and summaries are columns; all of them are on the run's page. */
const COLUMNS_MAX = 2;
const STATES = ["running", "finished", "failed", "crashed"] as const;

export function RunsPage({ entity, project }: { entity: string; project: string }) {
  const t = useText();
  const [state, setState] = useState("");
  const filters = state ? JSON.stringify({ state }) : null;
  const where = { entity, project, filters, order: "-created_at" };
  const answer = useInfiniteQuery({
    queryKey: ["Runs", where],
    queryFn: ({ pageParam }) => ask(Runs, { ...where, after: pageParam }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => (page.project?.runs?.pageInfo.hasNextPage ? page.project.runs.pageInfo.endCursor : null),
  });
  const launch = (
    <Button kind="primary" icon="rocket" onClick={() => go(withSearch({ open: "launch" }))}>
      {t.launchDeed}
    </Button>
  );
  const filter = (
    <SelectField
      label={t.status}
      value={state}
      choices={[{ value: "", label: t.allStates }, ...STATES.map((value) => ({ value, label: t.states[value] }))]}
      onText={setState}
    />
  );
  return (
    <>
      <header className="page-head">
        <div>
          <p className="back">{entity}</p>
          <Heading>{project}</Heading>
        </div>
        <div className="deeds">
          <Link className="button plain" to={pathOf(entity, project, "jobs")}>
            {t.jobs}
          </Link>
          {launch}
        </div>
      </header>
      <Answer of={answer}>
        {({ pages }) => {
          const runs = pages.flatMap((page) => page.project?.runs?.edges.map(({ node }) => node) ?? []);
          if (runs.length === 0 && !state) return <NoRuns project={project} />;
          return (
            <>
              <RunTable entity={entity} project={project} runs={runs} tools={filter} canCompare />
              {answer.hasNextPage && (
                <Button onClick={() => answer.fetchNextPage()} isBusy={answer.isFetchingNextPage}>
                  {t.showMore(runs.length, pages[0]?.project?.runCount ?? runs.length)}
                </Button>
              )}
            </>
          );
        }}
      </Answer>
      <LaunchFromSearch entity={entity} project={project} />
    </>
  );
}

function NoRuns({ project }: { project: string }) {
  const t = useText();
  return (
    <Empty icon="chart" title={t.noRuns}>
      <p>{t.noRunsText}</p>
      <Command text={`import wandb\nwith wandb.init(project="${project}") as run:\n    run.log({"loss": 0.1})`} />
    </Empty>
  );
}

type TableProps = { entity: string; project: string; runs: RunRow[]; tools?: React.ReactNode; canCompare?: boolean };

export function RunTable({ entity, project, runs, tools, canCompare = false }: TableProps) {
  const t = useText();
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const values = useMemo(() => columnsOf(runs), [runs]);
  const toggle = (name: string) =>
    setChosen((now) => (now.includes(name) ? now.filter((other) => other !== name) : [...now, name]));
  const columns: Column<RunRow>[] = [
    ...(canCompare
      ? [
          {
            title: t.choose,
            width: 0.35,
            isTitleHidden: true,
            show: (run: RunRow) => (
              <input
                type="checkbox"
                checked={chosen.includes(run.name)}
                onChange={() => toggle(run.name)}
                aria-label={t.chooseRun(nameOf(run))}
              />
            ),
          },
        ]
      : []),
    {
      title: t.run,
      isName: true,
      width: 2.2,
      by: nameOf,
      show: (run) => (
        <span className="two-lines">
          <Link className="strong cut" to={pathOf(entity, project, "runs", run.name)}>
            {nameOf(run)}
          </Link>
          {(run.tags?.length ?? 0) > 0 && <span className="cut faint small">{run.tags?.join(", ")}</span>}
        </span>
      ),
    },
    { title: t.status, width: 1.2, by: stateOf, show: (run) => <State name={stateOf(run)} /> },
    ...values.map(
      ({ title, read }): Column<RunRow> => ({
        title,
        width: 1.15,
        isNumber: true,
        by: (run) => read(run) as number,
        show: (run) => <span className="cut">{read(run) === undefined ? "–" : brief(read(run))}</span>,
      }),
    ),
    { title: t.author, width: 0.9, by: (run) => run.user?.username, show: (run) => run.user?.username },
    { title: t.duration, isNumber: true, show: (run) => <Duration from={run.createdAt} to={endOf(run)} /> },
    { title: t.created, by: (run) => run.createdAt, show: (run) => <Ago at={run.createdAt} /> },
  ];
  const compare = canCompare && chosen.length > 1 && (
    <Button
      icon="chart"
      onClick={() => go(`${pathOf(entity, project, "compare")}?runs=${chosen.map(encodeURIComponent).join(",")}`)}
    >
      {t.compare(chosen.length)}
    </Button>
  );
  const both = (
    <>
      {tools}
      {compare}
    </>
  );
  return (
    <Table
      label={t.runs}
      columns={columns}
      rows={runs}
      id={(run) => run.name}
      text={(run) => `${nameOf(run)} ${run.name} ${run.user?.username} ${run.tags?.join(" ")} ${run.config}`}
      tools={tools || canCompare ? both : undefined}
    />
  );
}

/** The first numbers of the summaries, and the first of the configs. */
function columnsOf(runs: RunRow[]) {
  const summaries = new Map(runs.map((run) => [run.name, plainSummary(run.summaryMetrics)]));
  const configs = new Map(runs.map((run) => [run.name, plainConfig(run.config)]));
  const numbers = (maps: Map<string, Record<string, unknown>>) => {
    const names = new Set([...maps.values()].flatMap((map) => Object.keys(map).filter((name) => typeof map[name] === "number")));
    return [...names].slice(0, COLUMNS_MAX).map((title) => ({ title, read: (run: RunRow) => maps.get(run.name)?.[title] }));
  };
  const shown = numbers(summaries);
  const names = new Set(shown.map(({ title }) => title));
  return [...shown, ...numbers(configs).filter(({ title }) => !names.has(title))];
}
