/** How a run went: from submitted to finished, what it was, and where its numbers ended. */
import { lazy, Suspense } from "react";
import { Ago, Duration, Facts, State } from "../parts/basic";
import { Link, pathOf } from "../router";
import { useText } from "../text";
import type { RunDetails, Where } from "./run";
import { brief, endOf, plainConfig, plainSummary } from "./run_data";
import { useItemOf } from "./run_item";

const Glance = lazy(async () => ({ default: (await import("./run_charts")).Glance }));
/** Curves that one sees before one asks for more. */
const CURVES = 2;

export function OverviewTab({ where, run }: { where: Where; run: RunDetails }) {
  const t = useText();
  const from = useItemOf(where, run);
  const summary = Object.entries(plainSummary(run.summaryMetrics));
  const config = Object.entries(plainConfig(run.config));
  return (
    <>
      <Suspense>
        <Glance where={where} run={run} count={CURVES} />
      </Suspense>
      <div className="overview">
        <Timeline where={where} run={run} from={from} />
        <section className="panel">
          <h2>{t.about}</h2>
          <Facts
            of={[
              [t.author, run.user?.username],
              [t.queue, from && <Link to={pathOf("launch", where.entity, from.queue)}>{from.queue}</Link>],
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

/** Each step with its time, and between two the wait and what it was for. */
function Timeline({ where, run, from }: { where: Where; run: RunDetails; from: ReturnType<typeof useItemOf> }) {
  const t = useText();
  const end = endOf(run);
  const steps = [
    ...(from ? [{ name: t.submitted, at: from.item.createdAt, wait: t.waitedInQueue }] : []),
    { name: t.started, at: run.createdAt, wait: t.ran },
    ...(end ? [{ name: <State name={run.state ?? ""} />, at: end, wait: "" }] : []),
  ];
  return (
    <section className="panel timeline">
      <h2>{t.timeline}</h2>
      <ol aria-label={t.timelineOf(where.run)}>
        {steps.map(({ name, at, wait }, index) => {
          const next = steps[index + 1]?.at ?? null;
          const isOpen = !next && !end && index === steps.length - 1;
          return (
            <li key={at + wait}>
              <span className="step">{name}</span>
              <span className="faint small">
                <Ago at={at} />
              </span>
              {(next || isOpen) && (
                <span className="wait">
                  {isOpen ? t.runningFor : wait} <Duration from={at} to={next} />
                </span>
              )}
            </li>
          );
        })}
      </ol>
    </section>
  );
}
