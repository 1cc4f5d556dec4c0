/** Numbers as charts show them: values with their units, places on the horizontal axis, and what lies under the cursor. */
import type { Text } from "../text";
import { durationText } from "./basic";

/** What a chart goes along: steps, seconds since a run began, or the time of day. */
export type Axis = "step" | "elapsed" | "clock";

export const number = (value: unknown): string =>
  typeof value === "number"
    ? Intl.NumberFormat(
        "en",
        Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3)
          ? { notation: "scientific", maximumFractionDigits: 2 }
          : { maximumSignificantDigits: 5 },
      ).format(value)
    : "–";

export function bytesText(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(4, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/** A value with its unit; bytes by the thousands that they are many of. */
export function figure(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return "–";
  return unit === "B" ? bytesText(value) : number(value) + (unit && ` ${unit}`);
}

/** A place on the horizontal axis, in full. */
export function placeText(t: Text, axis: Axis, x: number | null | undefined): string {
  if (x === null || x === undefined) return "–";
  if (axis === "elapsed") return durationText(t, x, true);
  if (axis === "step") return Intl.NumberFormat("en", { maximumFractionDigits: 2 }).format(x);
  return new Date(x * 1000).toLocaleString(t.locale, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
}

const DAY = 86_400;

/** What stands at the ticks of an axis of time, of which each is `step` seconds after the last; a new day is told below. */
export function clockTicks(locale: string, seconds: number[], step: number): string[] {
  const dates = seconds.map((one) => new Date(one * 1000));
  const days = Intl.DateTimeFormat(locale, { month: "short", ...(step < 28 * DAY ? { day: "numeric" } : { year: "numeric" }) });
  if (step >= DAY) return dates.map((date) => days.format(date));
  const times = Intl.DateTimeFormat(locale, {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    ...(step < 60 && { second: "2-digit" }),
    ...(step < 1 && { fractionalSecondDigits: 3 }),
  });
  return dates.map((date, index) => {
    const day = days.format(date);
    const before = dates[index - 1];
    return times.format(date) + (before && days.format(before) === day ? "" : `\n${day}`);
  });
}

/** Where a line's value is that is nearest to the cursor; nowhere before its first and behind its last. */
export function nearest(values: ArrayLike<unknown>, at: number): number | null {
  const isKnown = (index: number) => (values[index] ?? null) !== null;
  let [left, right] = [at, at];
  while (left >= 0 && !isKnown(left)) left--;
  while (right < values.length && !isKnown(right)) right++;
  if (left < 0 || right >= values.length) return null;
  return at - left <= right - at ? left : right;
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
