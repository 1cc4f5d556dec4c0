/** One run: how it went, its curves, logs, system, config and files. Live while it runs. */
import { lazy, Suspense, useState } from "react";
import { DeleteRun, Run, type RunData, StopRun } from "../api/generated";
import { useAsk, useDeed } from "../api/live";
import { useStopItem, useStory, type Where } from "../api/story";
import { Answer, Button, Duration, Heading, Problem, State } from "../parts/basic";
import { Confirm } from "../parts/drawer";
import { Tabs } from "../parts/tabs";
import { go, Link, pathOf, withSearch } from "../router";
import { useText } from "../text";
import { LaunchFromSearch } from "./launch_place";
import { ArtifactList } from "./run_artifacts";
import { endOf, isRunning, nameOf, stateOf } from "./run_data";
import { FilesTab } from "./run_files";
import { seatsOf } from "./run_gang";
import { LogsTab } from "./run_logs";
import { OverviewTab } from "./run_overview";

const ChartsTab = lazy(() => import("./run_charts"));
const SystemTab = lazy(() => import("./run_system"));
const ConfigTab = lazy(() => import("./run_config"));

export type RunDetails = NonNullable<NonNullable<RunData["project"]>["run"]>;
export type { Where };

export function RunPage({ entity, project, run: name, tab }: Where & { tab: string }) {
  const t = useText();
  const answer = useAsk(Run, { entity, project, run: name });
  const run = answer.data?.project?.run;
  return (
    <Answer of={answer}>
      {() =>
        run ? <Shown where={{ entity, project, run: name }} run={run} tab={tab} /> : <Heading>{t.noSuchRun(name)}</Heading>
      }
    </Answer>
  );
}

function Shown({ where, run, tab }: { where: Where; run: RunDetails; tab: string }) {
  const t = useText();
  const { entity, project } = where;
  const [isDeleting, setIsDeleting] = useState(false);
  const story = useStory(where).data;
  const item = story?.item && !story.item.end ? story.item : null;
  const stopRun = useDeed(StopRun, "Run", "Runs");
  const stopItem = useStopItem();
  // What was launched is ended by its agent, with all of its pods; other runs can only be asked.
  const stop = () => (item ? stopItem.mutate(item.id) : stopRun.mutate({ id: run.id }));
  const isStopping = item?.stop_asked || run.stopped;
  const remove = useDeed(DeleteRun, "Runs");
  const at = (part: string) => pathOf(entity, project, "runs", run.name, part);
  const tabs = [
    { name: "overview", title: t.overview, to: at("overview") },
    { name: "charts", title: t.charts, to: at("charts") },
    { name: "logs", title: t.logs, to: at("logs"), count: run.logLineCount },
    { name: "system", title: t.system, to: at("system") },
    { name: "config", title: t.config, to: at("config") },
    { name: "files", title: t.files, to: at("files"), count: run.fileCount },
  ];
  return (
    <>
      <header className="page-head">
        <div>
          <Link to={pathOf(entity, project)} className="back">
            {entity} / {project}
          </Link>
          <Heading>{nameOf(run)}</Heading>
          <p className="badges">
            <State name={stateOf(run)} />
            <Duration from={run.createdAt} to={endOf(run)} />
            <code className="faint">{run.name}</code>
          </p>
        </div>
        <div className="deeds">
          {isRunning(run) ? (
            <Button
              kind="danger"
              icon="stop"
              onClick={stop}
              isBusy={stopRun.isPending || stopItem.isPending}
              disabled={isStopping ?? false}
              title={item?.stop_by ? t.stopAskedBy(item.stop_by) : undefined}
            >
              {isStopping ? t.stopping : t.stop}
            </Button>
          ) : (
            <Button kind="quiet" icon="trash" onClick={() => setIsDeleting(true)}>
              {t.delete}
            </Button>
          )}
          <Button kind="primary" icon="rocket" onClick={() => go(withSearch({ open: "launch", run: run.name }))}>
            {t.launchAgain}
          </Button>
        </div>
      </header>
      <Problem error={stopRun.error ?? stopItem.error} />
      <Tabs label={t.partsOf(nameOf(run))} tabs={tabs} current={tab} />
      <Suspense>
        {tab === "overview" && <OverviewTab where={where} run={run} story={story} />}
        {tab === "charts" && <ChartsTab where={where} run={run} />}
        {tab === "logs" && <LogsTab where={where} run={run} place={seatsOf(story?.item)} />}
        {tab === "system" && <SystemTab where={where} run={run} />}
        {tab === "config" && <ConfigTab run={run} story={story} />}
        {tab === "files" && (
          <>
            <ArtifactList where={where} />
            <FilesTab where={where} />
          </>
        )}
      </Suspense>
      <LaunchFromSearch entity={entity} project={project} />
      {isDeleting && (
        <Confirm
          title={t.deleteRun(nameOf(run))}
          text={t.deleteRunText}
          deed={t.delete}
          onYes={() => remove.mutate({ id: run.id }, { onSuccess: () => go(pathOf(entity, project)) })}
          onNo={() => setIsDeleting(false)}
          isBusy={remove.isPending}
          error={<Problem error={remove.error} />}
        />
      )}
    </>
  );
}
