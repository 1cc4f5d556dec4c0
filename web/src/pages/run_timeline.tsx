/** From submitted to ended: each stage with its length, each wait with what it was for, as the server tells them. */
import type { Stage, Timeline } from "../api/story";
import { Ago, Duration, durationText, State, useNow } from "../parts/basic";
import { useText } from "../text";

/** A stage that took no time is still there to be seen. */
const LEAST_SHARE = 0.02;

export function TimelinePanel({ timeline, run }: { timeline: Timeline; run: string }) {
  const t = useText();
  const { stages, end } = timeline;
  const isLaunched = stages[0]?.name === "queued";
  return (
    <section className="panel timeline">
      <h2>{t.timeline}</h2>
      <Bar stages={stages} />
      <ol aria-label={t.timelineOf(run)}>
        {isLaunched && (
          <li className="moment">
            <span className="step">{t.submitted}</span>
            <span className="faint small">
              <Ago at={stages[0]?.from} />
            </span>
          </li>
        )}
        {stages.map((stage) => (
          <li key={stage.from + stage.name + stage.reason} className={`${stage.name} ${stage.until ? "" : "open"}`}>
            <span className="step">{t.stages[stage.name]}</span>
            {stage.attempt > 1 && <span className="badge">{t.attempt(stage.attempt)}</span>}
            <span className="faint small">
              <Duration from={stage.from} to={stage.until} isExact />
            </span>
            {stage.reason && <span className="wait">{stage.reason}</span>}
          </li>
        ))}
        {end && (
          <li className="moment">
            <span className="step">
              <State name={end.name} />
            </span>
            <span className="faint small">
              <Ago at={end.at} />
            </span>
          </li>
        )}
      </ol>
    </section>
  );
}

/** How the time was spent, at a glance. */
function Bar({ stages }: { stages: Stage[] }) {
  const t = useText();
  const now = useNow();
  const lengths = stages.map(({ from, until }) => Math.max(0, (until ? Date.parse(until) : now) - Date.parse(from)));
  const total = lengths.reduce((sum, length) => sum + length, 0) || 1;
  return (
    <div className="stage-bar" aria-hidden="true">
      {stages.map((stage, index) => (
        <span
          key={stage.from + stage.name + stage.reason}
          className={stage.name}
          style={{ flexGrow: Math.max(LEAST_SHARE, (lengths[index] ?? 0) / total) }}
          title={`${t.stages[stage.name]}: ${durationText(t, (lengths[index] ?? 0) / 1000)}`}
        />
      ))}
    </div>
  );
}
