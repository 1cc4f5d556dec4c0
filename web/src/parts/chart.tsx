/** Line charts by uPlot: drag to zoom, double click to see all again; cursors of one page move together. */
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useText } from "../text";
import { COLOURS } from "./colours";

export type Line = { label: string; x: number[]; y: (number | null)[] };
export type Range = [from: number, to: number] | null;
type Props = {
  title: string;
  lines: Line[];
  isLog?: boolean;
  smoothing?: number;
  isTime?: boolean;
  unit?: string;
  /** The part of the horizontal axis that is looked at; all of it without one. */
  range?: Range;
  onRange?: (range: Range) => void;
  isCount?: boolean;
};

const HEIGHT = 190;

export function Chart({
  title,
  lines,
  isLog = false,
  smoothing = 0,
  isTime = false,
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
  const plot = useRef<uPlot>(null);
  const data = useMemo(() => join(lines, smoothing, isLog), [lines, smoothing, isLog]);
  const latest = useRef({ data, range, onRange });
  latest.current = { data, range, onRange };
  const shape = JSON.stringify(lines.map((line) => line.label));
  useEffect(() => {
    if (!box.current) return;
    const made = new uPlot(
      options(JSON.parse(shape), { isLog, isTime, isCount, unit, width: box.current.clientWidth }, (next) =>
        latest.current.onRange(next),
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
  }, [shape, isLog, isTime, isCount, unit]);
  useEffect(() => {
    // Each chart is drawn in a task of its own: many that change at once do not stop the page.
    const timer = setTimeout(() => {
      const shown = plot.current;
      if (!shown) return;
      if (shown.data !== data) shown.setData(data, range === null);
      look(shown, range);
    });
    return () => clearTimeout(timer);
  }, [data, range]);
  const summary = lines.map((line) => `${line.label}: ${number(line.y.findLast((value) => value !== null))}`).join(", ");
  return (
    <figure className="chart">
      <figcaption>
        <span>{title}</span>
        {lines.length === 1 && <output>{number(lines[0]?.y.findLast((value) => value !== null))}</output>}
      </figcaption>
      <div ref={box} role="img" aria-label={t.chartOf(title, summary)} />
    </figure>
  );
}

/** Whoever zoomed in keeps the part that they look at. */
function look(plot: uPlot, range: Range): void {
  const x = plot.data[0];
  const [min, max] = range ?? [x[0] ?? 0, x.at(-1) ?? 0];
  const { x: now } = plot.scales;
  if (min < max && (now?.min !== min || now?.max !== max)) plot.setScale("x", { min, max });
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

/** An exponential moving average, without the pull towards zero at its beginning. */
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  if (weight === 0) return values;
  let [sum, norm] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    norm = norm * weight + (1 - weight);
    return sum / norm;
  });
}

export const number = (value: unknown): string =>
  typeof value === "number"
    ? Intl.NumberFormat(
        "en",
        Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3)
          ? { notation: "scientific", maximumFractionDigits: 2 }
          : { maximumSignificantDigits: 5 },
      ).format(value)
    : "–";

type Look = { isLog: boolean; isTime: boolean; isCount: boolean; unit: string; width: number };

function options(labels: string[], look: Look, onRange: (range: Range) => void): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name);
  const probe = document.createElement("i");
  document.body.append(probe);
  const resolved = (name: string) => {
    probe.style.color = colour(name);
    return getComputedStyle(probe).color;
  };
  const axis = {
    stroke: resolved("--faint"),
    grid: { stroke: resolved("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui",
  };
  probe.remove();
  const y = (_: uPlot, ticks: (number | null)[]) => ticks.map((tick) => (tick === null ? "" : number(tick) + look.unit));
  return {
    width: look.width,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: labels.length > 1, live: false },
    cursor: {
      sync: { key: "run" },
      points: { size: 6 },
      drag: { x: true, y: false, setScale: false },
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
    scales: { x: { time: look.isTime }, y: look.isLog ? { distr: 3 } : {} },
    axes: [
      { ...axis, size: look.isTime ? 42 : 28 },
      { ...axis, size: 54, values: y, ...(look.isCount && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] }) },
    ],
    series: [
      {},
      ...labels.map((label, index) => ({
        label,
        stroke: COLOURS[index % COLOURS.length] as string,
        width: 1.6,
        spanGaps: true,
        points: { size: 4 },
      })),
    ],
  };
}
