/** How a run went: from submitted to finished, what it was, and where its numbers ended. */
import { lazy, Suspense } from "react";
import type { Story } from "../api/story";
import { Facts, Problem } from "../parts/basic";
import { Icon } from "../parts/icon";
import { Link, pathOf } from "../router";
import { useText } from "../text";
import type { RunDetails, Where } from "./run";
import { brief, plainConfig, plainSummary } from "./run_data";
import { GangMap } from "./run_gang";
import { TimelinePanel } from "./run_timeline";

const Glance = lazy(async () => ({ default: (await import("./run_charts")).Glance }));
/** Curves that one sees before one asks for more. */
const CURVES = 2;

export function OverviewTab({ where, run, story }: { where: Where; run: RunDetails; story: Story | undefined }) {
  const t = useText();
  const item = story?.item;
  const summary = Object.entries(plainSummary(run.summaryMetrics));
  const config = Object.entries(plainConfig(run.config));
  return (
    <>
      {item?.error && <Problem error={new Error(item.error.message)} />}
      {item && !item.end && item.state !== "RUNNING" && (item.reason ?? item.waiting) && (
        <div className="notice warn">
          <Icon name="clock" />
          <p>
            <strong>{t.stillWaiting}:</strong> {item.reason ?? item.waiting}
          </p>
        </div>
      )}
      <Suspense>
        <Glance where={where} run={run} count={CURVES} />
      </Suspense>
      {item && <GangMap where={where} item={item} />}
      <div className="overview">
        {story && <TimelinePanel timeline={story.timeline} run={where.run} />}
        <section className="panel">
          <h2>{t.about}</h2>
          <Facts
            of={[
              [t.author, run.user?.username],
              [t.queue, item && <Link to={pathOf("launch", item.entity, item.queue)}>{item.queue}</Link>],
              [t.priority, item && t.priorities[item.priority]],
              [t.agent, item?.agent?.name],
              [t.host, run.host],
              [t.program, run.runInfo?.program && <code>{[run.runInfo.program, ...(run.runInfo.args ?? [])].join(" ")}</code>],
              ["Python", run.runInfo?.python],
              [t.system, run.runInfo?.os],
              [t.repository, run.jobRepo && <code>{run.jobRepo}</code>],
              [t.commit, run.commit && <code>{run.commit.slice(0, 12)}</code>],
              [t.group, run.group],
              [t.kind, run.jobType],
              [t.tags, run.tags?.join(", ")],
              [t.notes, run.notes],
              [t.exitCode, run.exitcode === null ? null : String(run.exitcode)],
            ]}
          />
        </section>
        <Pairs title={t.summary} pairs={summary} empty={t.noSummary} />
        <Pairs title={t.config} pairs={config} empty={t.noConfig} />
      </div>
    </>
  );
}

function Pairs({ title, pairs, empty }: { title: string; pairs: [string, unknown][]; empty: string }) {
  return (
    <section className="panel">
      <h2>{title}</h2>
      {pairs.length === 0 ? (
        <p className="faint">{empty}</p>
      ) : (
        <Facts of={pairs.map(([name, value]) => [name, <code key="value">{brief(value)}</code>])} />
      )}
    </section>
  );
}
