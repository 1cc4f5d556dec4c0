/**
 * Rows of one height, any number of them, of which only those in sight are in the page.
 *
 * Browsers draw nothing beyond some millions of pixels. What would be higher is scaled: the bar then moves over all rows, and the
 * rows in sight stay where they are seen.
 */
import { type RefObject, useCallback, useLayoutEffect, useReducer, useRef } from "react";

/** Below the least of the limits that browsers have, which is about 17 million. */
const HEIGHT_MAX = 15_000_000;
const MARGIN = 20;

export type Scroll = {
  box: RefObject<HTMLDivElement | null>;
  height: number;
  shown: { row: number; top: number }[];
  toRow: (row: number) => void;
  toEnd: () => void;
};

export function useRows(count: number, rowHeight: number): Scroll {
  const box = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((times: number) => times + 1, 0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const resize = new ResizeObserver(redraw);
    resize.observe(element);
    element.addEventListener("scroll", redraw, { passive: true });
    return () => {
      resize.disconnect();
      element.removeEventListener("scroll", redraw);
    };
  }, []);
  const whole = count * rowHeight;
  const height = Math.min(whole, HEIGHT_MAX);
  const seen = box.current?.clientHeight ?? 0;
  // How far the rows are scrolled for each pixel of the bar.
  const scale = whole > height ? (whole - seen) / (height - seen) : 1;
  const at = Math.max(0, Math.min(box.current?.scrollTop ?? 0, height - seen));
  const first = Math.max(0, Math.floor((at * scale) / rowHeight) - MARGIN);
  const last = Math.min(count, Math.ceil((at * scale + seen) / rowHeight) + MARGIN);
  const shift = at - at * scale;
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, index) => ({
    row: first + index,
    top: (first + index) * rowHeight + shift,
  }));
  const toRow = useCallback(
    (row: number) => {
      const element = box.current;
      if (element && row >= 0) element.scrollTop = Math.max(0, row * rowHeight - element.clientHeight / 2) / scale;
    },
    [rowHeight, scale],
  );
  const toEnd = useCallback(() => {
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, []);
  return { box, height, shown, toRow, toEnd };
}
