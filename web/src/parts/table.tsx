/** Tables of any length: only rows near the window are in the page. On a phone each row is a card. */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useCallback, useMemo, useRef, useState } from "react";
import { useText } from "../text";
import { Icon } from "./icon";

export type Column<Row> = {
  title: string;
  show: (row: Row) => ReactNode;
  /** What the column is sorted by; without it, it is not. */
  by?: (row: Row) => string | number | null | undefined;
  /** How wide, as a share of the table. */
  width?: number;
  isNumber?: boolean;
  /** It names the row: on a phone it is the title of the card. */
  isName?: boolean;
  isTitleHidden?: boolean;
};

type Props<Row> = {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  id: (row: Row) => string;
  /** What the search box looks in; without it there is none. */
  text?: (row: Row) => string;
  tools?: ReactNode;
};

const ROW_HEIGHT = 49;

export function Table<Row>({ label, columns, rows, id, text, tools }: Props<Row>) {
  const t = useText();
  const [wanted, setWanted] = useState("");
  const [order, setOrder] = useState<{ column: number; sign: 1 | -1 } | null>(null);
  const shown = useMemo(() => arrange(rows, columns, order, text, wanted), [rows, columns, order, text, wanted]);
  // The same function while the rows are the same: another one has all of them measured again.
  const key = useCallback((index: number) => id(shown[index] as Row), [shown, id]);
  const body = useRef<HTMLTableSectionElement>(null);
  const virtual = useWindowVirtualizer({
    count: shown.length,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
    getItemKey: key,
    scrollMargin: body.current?.offsetTop ?? 0,
  });
  const items = virtual.getVirtualItems();
  const before = (items[0]?.start ?? 0) - virtual.options.scrollMargin;
  const after = virtual.getTotalSize() - ((items.at(-1)?.end ?? 0) - virtual.options.scrollMargin);
  const total = columns.reduce((sum, column) => sum + (column.width ?? 1), 0);
  const sort = (column: number) => setOrder((now) => ({ column, sign: now?.column === column && now.sign === 1 ? -1 : 1 }));
  return (
    <div className="table-box">
      {(text || tools) && (
        <div className="tools">
          {text && <Search value={wanted} onText={setWanted} label={t.searchIn(label)} />}
          {tools}
        </div>
      )}
      {/* Roles are said again because cards, which rows are on a phone, have none. */}
      <table aria-label={label} aria-rowcount={shown.length + 1} role="table">
        <colgroup>
          {columns.map((column) => (
            <col key={column.title} style={{ width: `${((column.width ?? 1) / total) * 100}%` }} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {columns.map((column, index) => (
              <th
                key={column.title}
                className={column.isNumber ? "number" : ""}
                aria-sort={order?.column === index ? (order.sign === 1 ? "ascending" : "descending") : undefined}
              >
                {column.by ? (
                  <button type="button" onClick={() => sort(index)}>
                    {column.title}
                    <span aria-hidden="true">{order?.column === index ? (order.sign === 1 ? " ↑" : " ↓") : ""}</span>
                  </button>
                ) : (
                  <span className={column.isTitleHidden ? "sr-only" : ""}>{column.title}</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {before > 0 && <tr aria-hidden="true" className="gap" style={{ height: before }} />}
          {items.map((item) => {
            const row = shown[item.index] as Row;
            return (
              <tr key={item.key} ref={virtual.measureElement} data-index={item.index} aria-rowindex={item.index + 2} role="row">
                {columns.map((column) => (
                  <td
                    key={column.title}
                    data-title={column.isTitleHidden || column.isName ? undefined : column.title}
                    className={column.isNumber ? "number" : column.isName ? "name" : ""}
                    role="cell"
                  >
                    {column.show(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {after > 0 && <tr aria-hidden="true" className="gap" style={{ height: after }} />}
        </tbody>
      </table>
      {shown.length === 0 && <p className="nothing">{t.nothingFound}</p>}
    </div>
  );
}

export function arrange<Row>(
  rows: Row[],
  columns: Column<Row>[],
  order: { column: number; sign: number } | null,
  text: ((row: Row) => string) | undefined,
  wanted: string,
): Row[] {
  const needle = wanted.trim().toLowerCase();
  const found = needle && text ? rows.filter((row) => text(row).toLowerCase().includes(needle)) : rows;
  const by = order && columns[order.column]?.by;
  if (!by) return found;
  return [...found].sort((one, other) => compare(by(one), by(other), order.sign));
}

type Key = string | number | null | undefined;

/** What is missing comes last, whichever way the rest goes. */
function compare(one: Key, other: Key, sign: number): number {
  const [isMissing, isOtherMissing] = [one ?? null, other ?? null].map((key) => key === null);
  if (isMissing || isOtherMissing) return Number(isMissing) - Number(isOtherMissing);
  if (one === other) return 0;
  return (one as string) < (other as string) ? -sign : sign;
}

export function Search({ value, onText, label }: { value: string; onText: (text: string) => void; label: string }) {
  return (
    <label className="search">
      <span className="sr-only">{label}</span>
      <Icon name="search" />
      <input type="search" value={value} placeholder={label} onChange={(event) => onText(event.target.value)} />
    </label>
  );
}
