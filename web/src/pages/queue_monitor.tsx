/** Figures of a queue: how items stand, when they were submitted, who submitted them, and what failed. */
import { useMemo } from "react";
import type { Item, QueueRow } from "../api/generated";
import { Ago, Empty, UNITS } from "../parts/basic";
import { type Column, Table } from "../parts/table";
import { useText } from "../text";
import { hasAgent, shownState, specOf } from "./queue_data";
import { titleOf } from "./queue_items";

const BARS = 48;

export default function MonitorTab({ queue, items }: { queue: QueueRow; items: Item[] }) {
  const t = useText();
  const isActive = hasAgent(queue);
  const states = useMemo(() => tally(items.map((item) => shownState(item, isActive))), [items, isActive]);
  const people = useMemo(() => tally(items.map((item) => specOf(item).author ?? "")), [items]);
  const failed = items.filter((item) => item.error);
  if (items.length === 0) return <Empty icon="chart" title={t.nothingToMonitor} />;
  const words: Record<string, string> = t.states;
  const columns: Column<Item>[] = [
    { title: t.run, show: (item) => titleOf(item) },
    { title: t.submitted, width: 0.6, by: (item) => item.createdAt, show: (item) => <Ago at={item.createdAt} /> },
    { title: t.stage, width: 0.5, show: (item) => item.error?.stage },
    { title: t.error, width: 3, show: (item) => <span className="wrap">{item.error?.message}</span> },
  ];
  return (
    <>
      <div className="columns three">
        <Bars title={t.byState} rows={states.map(([name, count]) => [words[name] ?? name, count, name])} />
        <Bars title={t.byAuthor} rows={people.map(([name, count]) => [name, count, ""])} />
        <Timeline items={items} />
      </div>
      {failed.length > 0 && (
        <section>
          <h2>{t.errors}</h2>
          <Table label={t.errors} columns={columns} rows={failed} id={(item) => item.id} />
        </section>
      )}
    </>
  );
}

const tally = (names: string[]): [string, number][] => {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one);
};

function Bars({ title, rows }: { title: string; rows: [label: string, count: number, state: string][] }) {
  const most = Math.max(1, ...rows.map(([, count]) => count));
  return (
    <section className="panel">
      <h2>{title}</h2>
      <ul className="bars">
        {rows.map(([label, count, state]) => (
          <li key={label}>
            <span className="cut">{label}</span>
            <span className={`bar ${state}`} style={{ width: `${(count / most) * 100}%` }} />
            <span className="number">{count}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** How many were submitted, over the time from the first to the last. */
function Timeline({ items }: { items: Item[] }) {
  const t = useText();
  const times = items.map((item) => new Date(item.createdAt).getTime());
  const [first, last] = [times.at(-1) ?? 0, Math.max(times[0] ?? 0, (times.at(-1) ?? 0) + BARS * 1000)];
  const width = (last - first) / BARS;
  const counts = new Array<number>(BARS).fill(0);
  for (const time of times) {
    const bar = Math.min(BARS - 1, Math.max(0, Math.floor((time - first) / width)));
    counts[bar] = (counts[bar] ?? 0) + 1;
  }
  const most = Math.max(...counts);
  const [unit, size] = UNITS.find(([, size]) => width / 1000 >= size) ?? UNITS[3];
  const each = new Intl.NumberFormat(t.locale, { style: "unit", unit, maximumFractionDigits: 0 }).format(width / 1000 / size);
  return (
    <section className="panel">
      <h2>{t.submittedOverTime}</h2>
      <svg
        className="columns-chart"
        viewBox={`0 0 ${BARS * 10} 100`}
        preserveAspectRatio="none"
        role="img"
        aria-label={t.submittedSummary(items.length, most)}
      >
        {counts.map((count, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: bars are their places
          <rect key={index} x={index * 10} y={100 - (count / most) * 96} width={8} height={(count / most) * 96} />
        ))}
      </svg>
      <p className="faint small spread">
        <Ago at={new Date(first).toISOString()} />
        <span>{t.perBar(most, each)}</span>
        <Ago at={new Date(last).toISOString()} />
      </p>
    </section>
  );
}
