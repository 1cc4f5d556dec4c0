/** Line charts by uPlot: drag to zoom, double click to see all again; cursors of one page move together. */
import { useEffect, useMemo, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useText } from "../text";

export type Line = { label: string; x: number[]; y: (number | null)[] };
type Props = {
  title: string;
  lines: Line[];
  isLog?: boolean;
  smoothing?: number;
  isTime?: boolean;
  unit?: string;
  isCount?: boolean;
};

/** Told apart by people who do not see all colours, on light and on dark. */
export const COLOURS = ["#5c7cfa", "#e8590c", "#099268", "#c2255c", "#9c36b5", "#1098ad", "#a17b00", "#868e96"];
const HEIGHT = 190;

export function Chart({ title, lines, isLog = false, smoothing = 0, isTime = false, unit = "", isCount = false }: Props) {
  const t = useText();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const data = useMemo(() => join(lines, smoothing), [lines, smoothing]);
  const latest = useRef(data);
  latest.current = data;
  const shape = JSON.stringify(lines.map((line) => line.label));
  useEffect(() => {
    if (!box.current) return;
    const made = new uPlot(
      options(JSON.parse(shape), { isLog, isTime, isCount, unit, width: box.current.clientWidth }),
      latest.current,
      box.current,
    );
    plot.current = made;
    const resize = new ResizeObserver(([entry]) => entry && made.setSize({ width: entry.contentRect.width, height: HEIGHT }));
    resize.observe(box.current);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, isLog, isTime, isCount, unit]);
  useEffect(() => {
    const shown = plot.current;
    // Whoever zoomed in keeps the part that they look at.
    if (shown && shown.data !== data) shown.setData(data, !isZoomed(shown));
  }, [data]);
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

const isZoomed = (plot: uPlot): boolean => {
  const [x, scale] = [plot.data[0], plot.scales.x];
  return x.length > 1 && scale !== undefined && ((scale.min ?? 0) > (x[0] as number) || (scale.max ?? 0) < (x.at(-1) as number));
};

function join(lines: Line[], smoothing: number): uPlot.AlignedData {
  const tables = lines.map((line): uPlot.AlignedData => [line.x, smooth(line.y, smoothing)]);
  return tables.length === 0 ? [[]] : uPlot.join(tables);
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

function options(
  labels: string[],
  look: { isLog: boolean; isTime: boolean; isCount: boolean; unit: string; width: number },
): uPlot.Options {
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
    cursor: { sync: { key: "run" }, points: { size: 6 }, drag: { x: true, y: false } },
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
