/** Figures of a queue: how many wait and run over time, how long, who had how much of it, and what failed. */
import { useMemo, useState } from "react";
import { now } from "../api/clock";
import { type Item, Monitor, type MonitorData, type QueueRow, type Spread } from "../api/generated";
import { useAsk } from "../api/live";
import { Ago, Answer, durationText, Empty } from "../parts/basic";
import { Chart, type Line } from "../parts/chart";
import { Segmented } from "../parts/form";
import { type Column, Table } from "../parts/table";
import { useText } from "../text";
import { REGISTRY } from "./queue_data";
import { titleOf } from "./queue_items";

type Figures = NonNullable<NonNullable<MonitorData["project"]>["runQueue"]>;
type Person = Figures["load"]["people"][number];

const RANGES = { hour: 1, day: 24, week: 24 * 7, month: 24 * 30 };
type Range = keyof typeof RANGES;
/** Time goes by without events, too: waits grow, and charts move on. */
const LOOK_MS = 10_000;

export default function MonitorTab({ entity, queue, items }: { entity: string; queue: QueueRow; items: Item[] }) {
  const t = useText();
  const [range, setRange] = useState<Range>("week");
  const where = { entity, project: REGISTRY, queue: queue.name, hours: RANGES[range] };
  const answer = useAsk(Monitor, where, { refetchInterval: LOOK_MS, isKept: true });
  if (items.length === 0)
    return (
      <Empty icon="chart" title={t.nothingToMonitor}>
        <p>{t.nothingToMonitorText}</p>
      </Empty>
    );
  // As the figures count: by when something was launched.
  const since = now() - RANGES[range] * 3_600_000;
  const failed = items.filter((item) => item.error && Date.parse(item.createdAt) >= since);
  const ranges = (Object.keys(RANGES) as Range[]).map((name) => [name, t.ranges[name]] as const);
  return (
    <>
      <Segmented label={t.timeRange} value={range} choices={ranges} onChoose={setRange} />
      <Answer of={answer}>
        {({ project }) => (project?.runQueue ? <Shown figures={project.runQueue} failed={failed} /> : null)}
      </Answer>
    </>
  );
}

function Shown({ figures: { statistics, load }, failed }: { figures: Figures; failed: Item[] }) {
  const t = useText();
  const hasGpus = load.overTime.some(({ gpus }) => gpus > 0);
  const oldest = statistics.oldestPendingSeconds;
  return (
    <>
      <dl className="tally">
        <Count
          name={t.states.queued}
          count={statistics.pending}
          note={oldest === null ? null : t.oldest(durationText(t, oldest))}
        />
        <Count name={t.states.pending} count={statistics.leased + statistics.claimed} />
        <Count name={t.states.running} count={statistics.running} />
        <Count name={t.states.finished} count={statistics.finished} />
        <Count name={t.states.failed} count={statistics.failed} isBad />
      </dl>
      <Curves load={load} hasGpus={hasGpus} />
      <div className="columns">
        <Times title={t.waitTimes} spread={statistics.waitSeconds} />
        <Times title={t.runTimes} spread={statistics.durationSeconds} />
      </div>
      <ByPerson people={load.people} hasGpus={hasGpus} />
      {failed.length > 0 && <Errors items={failed} />}
    </>
  );
}

function Count({ name, count, note = null, isBad = false }: CountProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className={isBad && count > 0 ? "bad" : count === 0 ? "none" : ""}>{count}</dd>
      {note && <dd className="faint small">{note}</dd>}
    </div>
  );
}
type CountProps = { name: string; count: number; note?: string | null; isBad?: boolean };

function Curves({ load: { overTime }, hasGpus }: { load: Figures["load"]; hasGpus: boolean }) {
  const t = useText();
  const [work, gpus] = useMemo(() => {
    const x = overTime.map(({ at }) => Date.parse(at) / 1000);
    const line = (label: string, y: number[]): Line => ({ label, x, y });
    return [
      [
        line(
          t.states.queued,
          overTime.map(({ waiting }) => waiting),
        ),
        line(
          t.states.running,
          overTime.map(({ running }) => running),
        ),
      ],
      [
        line(
          t.gpusHeld,
          overTime.map(({ gpus }) => gpus),
        ),
      ],
    ] as const;
  }, [overTime, t]);
  return (
    <div className="charts">
      <Chart title={t.overTime} lines={[...work]} axis="clock" isCount />
      {hasGpus && <Chart title={t.gpusHeld} lines={[...gpus]} axis="clock" isCount />}
    </div>
  );
}

function Times({ title, spread: { count, p50, p90, p99 } }: { title: string; spread: Spread }) {
  const t = useText();
  const rows = [
    [t.half, p50],
    [t.ninety, p90],
    [t.ninetyNine, p99],
  ] as const;
  const most = Math.max(p99 ?? 0, 1e-9);
  return (
    <section className="panel">
      <div className="panel-head">
        <h2>{title}</h2>
        <span className="faint small">{t.ofCount(count)}</span>
      </div>
      {count === 0 ? (
        <p className="faint">{t.nothingMeasured}</p>
      ) : (
        <ul className="bars">
          {rows.map(([label, seconds]) => (
            <li key={label}>
              <span className="cut">{label}</span>
              <span className="bar" style={{ width: `${((seconds ?? 0) / most) * 100}%` }} />
              <span className="number">{seconds === null ? "–" : durationText(t, seconds, true)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function ByPerson({ people, hasGpus }: { people: Person[]; hasGpus: boolean }) {
  const t = useText();
  const columns: Column<Person>[] = [
    { title: t.author, isName: true, width: 1.6, by: (one) => one.username, show: (one) => one.username },
    { title: t.submitted, isNumber: true, by: (one) => one.submitted, show: (one) => one.submitted },
    { title: t.states.queued, isNumber: true, by: (one) => one.waiting, show: (one) => one.waiting },
    { title: t.states.running, isNumber: true, by: (one) => one.running, show: (one) => one.running },
    { title: t.states.failed, isNumber: true, by: (one) => one.failed, show: (one) => one.failed },
    {
      title: t.medianWait,
      isNumber: true,
      by: (one) => one.waitSeconds,
      show: (one) => (one.waitSeconds === null ? "–" : durationText(t, one.waitSeconds, true)),
    },
    { title: t.runTime, isNumber: true, by: (one) => one.runSeconds, show: (one) => durationText(t, one.runSeconds) },
    ...(hasGpus
      ? [
          {
            title: t.gpuHours,
            isNumber: true,
            by: (one: Person) => one.gpuSeconds,
            show: (one: Person) => (one.gpuSeconds / 3600).toFixed(2),
          },
        ]
      : []),
  ];
  return (
    <section>
      <h2>{t.byAuthor}</h2>
      <Table label={t.byAuthor} columns={columns} rows={people} id={(one) => one.username} />
    </section>
  );
}

function Errors({ items }: { items: Item[] }) {
  const t = useText();
  const columns: Column<Item>[] = [
    { title: t.run, isName: true, show: (item) => titleOf(item) },
    { title: t.submitted, width: 0.6, by: (item) => item.createdAt, show: (item) => <Ago at={item.createdAt} /> },
    { title: t.stage, width: 0.5, show: (item) => item.error?.stage },
    { title: t.error, width: 3, show: (item) => <span className="wrap">{item.error?.message}</span> },
  ];
  return (
    <section>
      <h2>{t.errors}</h2>
      <Table label={t.errors} columns={columns} rows={items} id={(item) => item.id} />
    </section>
  );
}
