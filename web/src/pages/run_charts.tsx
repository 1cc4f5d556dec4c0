/** The curves of one run, or of several together. */
import { keepPreviousData, useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ask } from "../api/client";
import { History } from "../api/generated";
import { Empty } from "../parts/basic";
import { Chart, type Line, type Range } from "../parts/chart";
import { Segmented, Switch } from "../parts/form";
import { Search } from "../parts/table";
import { usePreference } from "../preferences";
import { useText } from "../text";
import type { RunDetails, Where } from "./run";
import { isRunning, nameOf, plainSummary } from "./run_data";

/** As many points as a chart can show on a wide screen. */
const SAMPLES = 1500;
/** A live run asks anew every other second; what it was told before is not kept for long. */
export const OLD_MS = 10_000;
/** More charts than this at once are reached by the search. */
const CHARTS_MAX = 60;

export default function ChartsTab({ where, run }: { where: Where; run: RunDetails }) {
  return <Charts runs={[{ where, run }]} />;
}

/** The first few curves, without anything to set. */
export function Glance({ where, run, count }: { where: Where; run: RunDetails; count: number }) {
  const runs = useMemo(() => [{ where, run }], [where, run]);
  const summary = Object.keys(plainSummary(run.summaryMetrics));
  const keys = keysOf(run).sort((one, other) => order(summary, one) - order(summary, other));
  return <Grid runs={runs} keys={keys.slice(0, count)} axis="_step" />;
}

/** What the summary names comes first, as it names it. */
const order = (names: string[], name: string): number => (names.indexOf(name) + names.length + 1) % (names.length + 1);

type Shown = { where: Where; run: RunDetails };
const AXES = { _step: "step", _runtime: "elapsed", _timestamp: "clock" } as const;
type Axis = keyof typeof AXES;

/** The keys that hold numbers, without what the client adds. */
function keysOf(run: RunDetails): string[] {
  const told = run.historyKeys as { keys?: Record<string, { typeCounts?: { type: string }[] }> } | null;
  const isNumber = (counts: { type: string }[] | undefined) =>
    counts === undefined || counts.some(({ type }) => type === "number");
  return Object.entries(told?.keys ?? {}).flatMap(([key, { typeCounts }]) =>
    key.startsWith("_") || !isNumber(typeCounts) ? [] : [key],
  );
}

export function Charts({ runs }: { runs: Shown[] }) {
  const t = useText();
  const [axis, setAxis] = usePreference<Axis>("axis", "_step");
  const [smoothing, setSmoothing] = useState(0);
  const [isLog, setIsLog] = useState(false);
  const [range, setRange] = useState<Range>(null);
  const [wanted, setWanted] = useState("");
  const keys = [...new Set(runs.flatMap(({ run }) => keysOf(run)))].sort();
  const shown = keys.filter((key) => key.toLowerCase().includes(wanted.toLowerCase())).slice(0, CHARTS_MAX);
  if (keys.length === 0) {
    const isWaiting = runs.some(({ run }) => isRunning(run));
    return (
      <Empty icon="chart" title={isWaiting ? t.waitingForMetrics : t.noMetrics}>
        <p>{t.noMetricsText}</p>
      </Empty>
    );
  }
  return (
    <>
      <div className="tools">
        <Search value={wanted} onText={setWanted} label={t.searchMetrics} />
        <Segmented
          label={t.axis}
          value={axis}
          choices={[
            ["_step", t.step],
            ["_runtime", t.time],
            ["_timestamp", t.clock],
          ]}
          onChoose={(next) => {
            setAxis(next);
            setRange(null);
          }}
        />
        <label className="slider">
          {t.smoothing}
          <input
            type="range"
            min={0}
            max={0.99}
            step={0.01}
            value={smoothing}
            onChange={(event) => setSmoothing(Number(event.target.value))}
          />
          <span className="number">{smoothing.toFixed(2)}</span>
        </label>
        <Switch label={t.logAxis} isOn={isLog} onSwitch={setIsLog} />
      </div>
      <p className="faint small">
        {t.zoomHint}{" "}
        {range && (
          <button type="button" className="link" onClick={() => setRange(null)}>
            {t.zoomOut}
          </button>
        )}
      </p>
      <Grid runs={runs} keys={shown} axis={axis} isLog={isLog} smoothing={smoothing} range={range} onRange={setRange} />
    </>
  );
}

type GridProps = {
  runs: Shown[];
  keys: string[];
  axis: Axis;
  isLog?: boolean;
  smoothing?: number;
  range?: Range;
  onRange?: (range: Range) => void;
};

function Grid({ runs, keys, axis, isLog = false, smoothing = 0, range = null, onRange }: GridProps) {
  const answers = useHistories(runs, keys, axis, range);
  const lines = useMemo(() => linesByKey(answers, keys, axis), [answers, keys, axis]);
  return (
    <div className="charts">
      {keys.map((key) => (
        <Chart
          key={key}
          title={key}
          lines={lines.get(key) ?? []}
          isLog={isLog}
          smoothing={smoothing}
          axis={AXES[axis]}
          range={range}
          {...(onRange ? { onRange } : {})}
        />
      ))}
    </div>
  );
}

type Rows = { name: string; lists: unknown[] };

/** One request for each run, one list of rows for each key, so that keys of different steps do not thin each other out. */
function useHistories(runs: Shown[], keys: string[], axis: Axis, range: Range): Rows[] {
  // Who looks at a part sees all that is in it, and not a part of what was picked from the whole.
  const part = range && axis === "_step" ? { minStep: Math.floor(range[0]), maxStep: Math.ceil(range[1]) + 1 } : {};
  const specs = keys.map((key) => JSON.stringify({ keys: [...new Set(["_step", axis, key])], samples: SAMPLES, ...part }));
  const answers = useQueries({
    queries: runs.map(({ where, run }) => ({
      // The count of lines makes a new question of it while the run goes on.
      queryKey: ["History", where, specs, run.historyLineCount],
      queryFn: () => ask(History, { ...where, specs }),
      placeholderData: keepPreviousData,
      staleTime: Number.POSITIVE_INFINITY,
      gcTime: OLD_MS,
      enabled: specs.length > 0,
    })),
    combine: (all) => all.map(({ data }) => data),
  });
  const names = JSON.stringify(runs.map(({ run }) => nameOf(run)));
  return useMemo(
    () =>
      (JSON.parse(names) as string[]).map((name, index) => ({
        name,
        lists: answers[index]?.project?.run?.sampledHistory ?? [],
      })),
    [answers, names],
  );
}

/** A run has the same colour in all charts, also where others have nothing to show. */
export function linesByKey(answers: Rows[], keys: string[], axis: Axis): Map<string, Line[]> {
  return new Map(
    keys.map((key, index) => {
      const lines = answers.flatMap(({ name, lists }, colour): Line[] => {
        const rows = (lists[index] ?? []) as Record<string, unknown>[];
        const points = rows.flatMap((row): [number, number | null][] => {
          const [x, y] = [row[axis], row[key]];
          return typeof x === "number" ? [[x, typeof y === "number" ? y : null]] : [];
        });
        points.sort(([one], [other]) => one - other);
        return points.length === 0
          ? []
          : [{ label: answers.length > 1 ? name : key, x: points.map(([x]) => x), y: points.map(([, y]) => y), colour }];
      });
      return [key, lines];
    }),
  );
}
