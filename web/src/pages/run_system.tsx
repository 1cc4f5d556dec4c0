/** What the machine did meanwhile: processor, memory, GPUs, as the client measured them. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { ask } from "../api/client";
import { SystemMetrics } from "../api/generated";
import { Answer, Empty } from "../parts/basic";
import { Chart, type Line } from "../parts/chart";
import { useText } from "../text";
import type { RunDetails, Where } from "./run";
import { OLD_MS } from "./run_charts";
import { unitOf } from "./system_units";

const SAMPLES = 1000;

export default function SystemTab({ where, run }: { where: Where; run: RunDetails }) {
  const t = useText();
  const answer = useQuery({
    queryKey: ["SystemMetrics", where, run.eventsLineCount],
    queryFn: () => ask(SystemMetrics, { ...where, samples: SAMPLES }),
    placeholderData: keepPreviousData,
    gcTime: OLD_MS,
  });
  const charts = useMemo(() => chartsOf(answer.data?.project?.run?.events ?? []), [answer.data]);
  return (
    <Answer of={answer}>
      {() =>
        charts.length === 0 ? (
          <Empty icon="chart" title={t.noSystem}>
            <p>{t.noSystemText}</p>
          </Empty>
        ) : (
          <div className="charts">
            {charts.map(([title, lines]) => (
              <Chart key={title} title={title} lines={lines} axis="elapsed" unit={unitOf(title).unit} />
            ))}
          </div>
        )
      }
    </Answer>
  );
}

/** One chart for a measure; the GPUs, or other numbered things, that have it are its lines. */
function chartsOf(rows: string[]): [string, Line[]][] {
  const read = rows.map((row) => JSON.parse(row) as Record<string, unknown>);
  const names = [...new Set(read.flatMap((row) => Object.keys(row)))].filter((name) => name.startsWith("system.")).sort();
  const charts = new Map<string, Line[]>();
  for (const name of names) {
    const points = read.filter((row) => typeof row[name] === "number" && typeof row._runtime === "number");
    const label = name.replace("system.", "");
    const title = label.replace(/\.\d+(?=\.|$)/, "");
    const { size } = unitOf(title);
    const line = {
      label,
      x: points.map((row) => row._runtime as number),
      y: points.map((row) => (row[name] as number) * size),
    };
    if (points.length > 0) charts.set(title, [...(charts.get(title) ?? []), line]);
  }
  return [...charts];
}
