/** Line charts by uPlot: drag to zoom, double click to see all again; cursors of one page move together, and tell values. */
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Text, useText } from "../text";
import { durationText } from "./basic";
import { COLOURS } from "./colours";
import { type Axis, clockTicks, figure, nearest, placeText, smooth } from "./figures";

/** `colour` is the number of a line's own, where it is not that of its place among the others. */
export type Line = { label: string; x: number[]; y: (number | null)[]; colour?: number };
export type Range = [from: number, to: number] | null;
type Props = {
  title: string;
  lines: Line[];
  isLog?: boolean;
  smoothing?: number;
  axis?: Axis;
  /** Of the values; those in `B` are told in KiB and more. */
  unit?: string;
  /** The part of the horizontal axis that is looked at; all of it without one. */
  range?: Range;
  onRange?: (range: Range) => void;
  isCount?: boolean;
};

const HEIGHT = 190;
/** Counts begin at zero, so that how high a line is tells how many there are. */
const COUNTS: uPlot.Range.Function = (_, __, most) => [0, Math.max(1, most * 1.1)];

export function Chart({
  title,
  lines,
  isLog = false,
  smoothing = 0,
  axis = "step",
  unit = "",
  range: given = null,
  onRange: tell,
  isCount = false,
}: Props) {
  const t = useText();
  // Charts that are looked at together are told which part; one that stands alone knows by itself.
  const [own, setOwn] = useState<Range>(null);
  const [range, onRange] = tell ? [given, tell] : [own, setOwn];
  const box = useRef<HTMLDivElement>(null);
  const caption = useRef<HTMLElement>(null);
  const plot = useRef<uPlot>(null);
  const data = useMemo(() => join(lines, smoothing, isLog), [lines, smoothing, isLog]);
  const latest = useRef({ data, range, onRange });
  latest.current = { data, range, onRange };
  const shape = JSON.stringify(lines.map(({ label, colour }, index) => ({ label, colour: colour ?? index })));
  useEffect(() => {
    if (!box.current) return;
    const series: Series[] = JSON.parse(shape);
    const made = new uPlot(
      options(
        series,
        { t, isLog, axis, isCount, unit, width: box.current.clientWidth },
        // One line's value stands beside its title.
        (_, legend) => series.length === 1 && caption.current?.append(legend),
        (next) => latest.current.onRange(next),
      ),
      latest.current.data,
      box.current,
    );
    plot.current = made;
    look(made, latest.current.range);
    const resize = new ResizeObserver(([entry]) => entry && made.setSize({ width: entry.contentRect.width, height: HEIGHT }));
    resize.observe(box.current);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [t, shape, isLog, axis, isCount, unit]);
  useEffect(() => {
    // Each chart is drawn in a task of its own: many that change at once do not stop the page.
    const timer = setTimeout(() => {
      const shown = plot.current;
      if (!shown) return;
      if (shown.data !== data) shown.setData(data);
      look(shown, range);
    });
    return () => clearTimeout(timer);
  }, [data, range]);
  const summary = lines
    .map(
      (line) =>
        `${line.label}: ${figure(
          line.y.findLast((value) => value !== null),
          unit,
        )}`,
    )
    .join(", ");
  return (
    <figure className="chart">
      <figcaption ref={caption}>
        <span className="cut" title={title}>
          {title}
        </span>
      </figcaption>
      <div ref={box} role="img" aria-label={t.chartOf(title, summary)} />
    </figure>
  );
}

/** Whoever zoomed in keeps the part that they look at; new data in it is drawn, too. */
function look(plot: uPlot, range: Range): void {
  const x = plot.data[0];
  const [min, max] = range ?? [x[0] ?? 0, x.at(-1) ?? 0];
  if (min < max) plot.setScale("x", { min, max });
}

function join(lines: Line[], smoothing: number, isLog: boolean): uPlot.AlignedData {
  const placed = (values: (number | null)[]) => (isLog ? logarithmic(values) : values);
  const tables = lines.map((line): uPlot.AlignedData => [line.x, placed(smooth(line.y, smoothing))]);
  return tables.length === 0 ? [[]] : uPlot.join(tables);
}

/** How many powers of ten a log axis has room for; what is further below the highest value is as good as zero. */
const DECADES_MAX = 12;

/** What is not above zero has no place on a log axis. */
function logarithmic(values: (number | null)[]): (number | null)[] {
  const highest = values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
  const least = highest / 10 ** DECADES_MAX;
  return values.map((value) => (value !== null && value > least ? value : null));
}

type Series = { label: string; colour: number };
type Look = { t: Text; isLog: boolean; axis: Axis; isCount: boolean; unit: string; width: number };

function options(
  series: Series[],
  look: Look,
  mount: (plot: uPlot, legend: HTMLElement) => void,
  onRange: (range: Range) => void,
): uPlot.Options {
  return {
    width: look.width,
    height: HEIGHT,
    padding: [8, 14, 0, 0],
    legend: { show: series.length > 0, mount },
    cursor: {
      sync: { key: "run" },
      points: { size: 6 },
      drag: { x: true, y: false, setScale: false },
      dataIdx: (plot, line, at) => (line === 0 ? at : nearest(plot.data[line] ?? [], at)) as number,
      bind: {
        dblclick: () => () => {
          onRange(null);
          return null;
        },
      },
    },
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 1 && plot.data[0].length > 1) {
            onRange([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          }
        },
      ],
    },
    scales: { x: { time: look.axis === "clock" }, y: look.isLog ? { distr: 3 } : look.isCount ? { range: COUNTS } : {} },
    axes: axes(look),
    series: [
      { label: { step: look.t.step, elapsed: look.t.time, clock: look.t.clock }[look.axis], value: shown(axisText(look)) },
      ...series.map(({ label, colour }) => ({
        label,
        value: shown((value) => figure(value, look.unit)),
        stroke: COLOURS[colour % COLOURS.length] as string,
        width: 1.6,
        spanGaps: true,
        points: { size: 4 },
      })),
    ],
  };
}

const axisText =
  ({ t, axis }: Look) =>
  (x: number | null): string =>
    placeText(t, axis, x);

/** What is under the cursor; the last there is where there is none. */
const shown =
  (say: (value: number | null) => string): uPlot.Series.Value =>
  (plot, value, line) => {
    const all = plot.data[line] as (number | null | undefined)[] | undefined;
    const isAway = (plot.cursor.idx ?? null) === null;
    return say((isAway ? all?.findLast((one) => (one ?? null) !== null) : value) ?? null);
  };

/** Steps between ticks that people count time in, and bytes. */
const SECONDS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200];
const DAYS = [1, 2, 5, 10, 20, 50, 100].map((days) => days * 86_400);
const BYTES = Array.from({ length: 50 }, (_, power) => 2 ** power);
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

function axes({ t, axis, isCount, unit }: Look): uPlot.Axis[] {
  const style = getComputedStyle(document.documentElement);
  const probe = document.createElement("i");
  document.body.append(probe);
  const resolved = (name: string) => {
    probe.style.color = style.getPropertyValue(name);
    return getComputedStyle(probe).color;
  };
  const drawn = {
    stroke: resolved("--faint"),
    grid: { stroke: resolved("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui",
  };
  probe.remove();
  const elapsed: uPlot.Axis = {
    space: 70,
    incrs: [...SECONDS, ...DAYS],
    values: (_, seconds, __, ___, step) => seconds.map((one) => durationText(t, one, step < 1)),
  };
  const clock: uPlot.Axis = {
    // Parts of a second take more room.
    space: (_, __, from, to) => (to - from < 8 ? 95 : 64),
    values: (_, seconds, __, ___, step) => clockTicks(t.locale, seconds, step),
  };
  const y = (_: uPlot, ticks: (number | null)[]) => ticks.map((tick) => (tick === null ? "" : figure(tick, unit)));
  const incrs = isCount ? WHOLE : unit === "B" ? BYTES : null;
  return [
    { ...drawn, size: axis === "clock" ? 42 : 28, ...{ step: {}, elapsed, clock }[axis] },
    { ...drawn, size: unit === "B" ? 66 : 54, values: y, ...(incrs && { incrs }) },
  ];
}
