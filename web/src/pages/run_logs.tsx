/** A run's output: all ranks interleaved or one of them, any number of lines, of which only those in sight are read. */
import { useEffect, useReducer, useRef, useState } from "react";
import { type Line, Lines, PIECE } from "../api/console";
import { useIsLive } from "../api/live";
import type { Seat } from "../api/story";
import { Button, Empty } from "../parts/basic";
import { COLOURS } from "../parts/colours";
import { useFollow } from "../parts/follow";
import { SelectField, Switch } from "../parts/form";
import { Icon } from "../parts/icon";
import { Search } from "../parts/table";
import { type Scroll, useRows } from "../parts/window";
import { go, useSearch, withSearch } from "../router";
import { useText } from "../text";
import type { RunDetails, Where } from "./run";
import { isRunning } from "./run_data";

const LINE_HEIGHT = 20;
/** More matches are not listed; one then searches for something rarer. */
const MATCHES_MAX = 1000;

type Props = { where: Where; run: RunDetails; place: Seat[] };

export function LogsTab({ where, run, place }: Props) {
  const t = useText();
  const total = run.logLineCount ?? 0;
  if (total === 0)
    return (
      <Empty icon="text" title={isRunning(run) ? t.waitingForLogs : t.noLogs}>
        <p>{t.noLogsText}</p>
      </Empty>
    );
  return <Log where={where} run={run} place={place} total={total} />;
}

function Log({ where, run, place, total }: Props & { total: number }) {
  const t = useText();
  const rank = useSearch().get("rank") ?? "";
  const [lines] = useState(() => new Lines(where));
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const [current, setCurrent] = useState<number | null>(null);
  const own = useNumbers(lines, rank, total);
  const count = own ? own.length : total;
  const rows = useRows(count, LINE_HEIGHT);
  const numberOf = (row: number): number => (own ? (own[row] ?? 0) : row);
  useReading(lines, rows, numberOf, total, redraw);
  const { isFollowing, setIsFollowing, scroll } = useFollow(rows, count, isRunning(run));
  const show = (number: number) => {
    setIsFollowing(false);
    setCurrent(number);
    scroll(() => rows.toRow(own ? own.findIndex((one) => one >= number) : number));
  };
  const labels = [...new Set([...place.flatMap(({ label }) => label ?? []), ...lines.labels])];
  const error = useFirstFailure(lines, run, total);
  return (
    <>
      <div className="tools">
        {labels.length > 1 && (
          <SelectField
            label={t.rank}
            value={rank}
            onText={(label) => go(withSearch({ rank: label || null }), "replace")}
            choices={[{ value: "", label: t.allRanks }, ...labels.map((label) => ({ value: label, label }))]}
          />
        )}
        <LogSearch lines={lines} rank={rank} onShow={show} />
        <Switch label={t.follow} isOn={isFollowing} onSwitch={setIsFollowing} />
        <span className="faint small">{t.logLines(count.toLocaleString(t.locale))}</span>
      </div>
      {error && (
        <button type="button" className="pinned" onClick={() => show(error.number)}>
          <Icon name="alert" />
          <strong>{t.firstError(error.number + 1)}</strong>
          <code className="cut">{error.text}</code>
        </button>
      )}
      <div className="log" ref={rows.box} role="log" aria-label={t.logs} aria-live="off" tabIndex={0}>
        <div style={{ height: rows.height }}>
          {rows.shown.map(({ row, top }) => {
            const number = numberOf(row);
            return (
              <Printed
                key={row}
                number={number}
                top={top}
                line={lines.line(number)}
                colour={labels.length > 1 ? labels.indexOf(lines.line(number)?.label ?? "") : -1}
                isCurrent={number === current}
              />
            );
          })}
        </div>
      </div>
    </>
  );
}

type PrintedProps = { number: number; top: number; line: Line | undefined; colour: number; isCurrent: boolean };

function Printed({ number, top, line, colour, isCurrent }: PrintedProps) {
  return (
    <div
      className={`line ${line?.is_failure ? "bad" : ""} ${isCurrent ? "current" : ""}`}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span className="line-number">{number + 1}</span>
      {line?.label && (
        <span className="line-label">
          {colour >= 0 && <span className="swatch" style={{ background: COLOURS[colour % COLOURS.length] }} />}
          {line.label}
        </span>
      )}
      <span>{line?.text ?? "…"}</span>
    </div>
  );
}

/** Reads the pieces that are in sight. */
function useReading(lines: Lines, rows: Scroll, numberOf: (row: number) => number, total: number, redraw: () => void) {
  const isLive = useIsLive();
  const pieces = new Set(rows.shown.map(({ row }) => Math.floor(numberOf(row) / PIECE)));
  const wanted = [...pieces].join(",");
  useEffect(() => {
    // What could not be read while the server was away is read when it is back.
    if (!isLive) return;
    // Somebody who drags the bar passes many pieces: only where they rest is read.
    const timer = setTimeout(() => {
      for (const piece of wanted.split(",")) lines.piece(Number(piece), total).then(redraw, redraw);
    }, 30);
    return () => clearTimeout(timer);
  }, [lines, wanted, total, redraw, isLive]);
}

/** The numbers of one rank's lines; null while all are shown. New lines are looked at as they come. */
function useNumbers(lines: Lines, rank: string, total: number): number[] | null {
  const [found, setFound] = useState<{ rank: string; numbers: number[]; upto: number }>({ rank: "", numbers: [], upto: 0 });
  const known = found.rank === rank ? found : null;
  const from = known?.upto ?? 0;
  const isLive = useIsLive();
  useEffect(() => {
    if (rank === "" || from >= total || !isLive) return;
    let isGone = false;
    const numbers: number[] = [];
    lines
      .search({ label: rank }, from, (more, isLast) => {
        for (const number of more) numbers.push(number);
        if (isLast && !isGone)
          setFound((before) => ({
            rank,
            upto: total,
            numbers: before.rank === rank ? [...before.numbers, ...numbers.filter((one) => one >= before.upto)] : numbers,
          }));
        return !isGone;
      })
      .catch(() => undefined);
    return () => {
      isGone = true;
    };
  }, [lines, rank, from, total, isLive]);
  return rank === "" ? null : (known?.numbers ?? []);
}

/** The first line that tells of a failure, of a run that did not end well. */
function useFirstFailure(lines: Lines, run: RunDetails, total: number): Line | null {
  const [found, setFound] = useState<Line | null>(null);
  const hasFailed = run.state === "failed" || run.state === "crashed";
  const isLive = useIsLive();
  useEffect(() => {
    if (!hasFailed || !isLive) return;
    let isGone = false;
    const tell = (numbers: number[]): boolean => {
      const [first] = numbers;
      if (first !== undefined)
        lines.piece(Math.floor(first / PIECE), total).then(
          (read) => !isGone && setFound(read[first % PIECE] ?? null),
          () => undefined,
        );
      return first === undefined && !isGone;
    };
    lines.search({ failure: true }, 0, tell).catch(() => undefined);
    return () => {
      isGone = true;
    };
  }, [lines, hasFailed, total, isLive]);
  return hasFailed ? found : null;
}

function LogSearch({ lines, rank, onShow }: { lines: Lines; rank: string; onShow: (line: number) => void }) {
  const t = useText();
  const [wanted, setWanted] = useState("");
  const [found, setFound] = useState<number[] | null>(null);
  const [at, setAt] = useState(0);
  const shown = useRef(onShow);
  shown.current = onShow;
  useEffect(() => {
    setFound(null);
    if (wanted === "") return;
    let isGone = false;
    const timer = setTimeout(() => {
      const matches: number[] = [];
      const sought = { text: wanted, ...(rank ? { label: rank } : {}) };
      const tell = (numbers: number[], isLast: boolean): boolean => {
        if (isGone) return false;
        if (matches.length === 0 && numbers[0] !== undefined) shown.current(numbers[0]);
        matches.push(...numbers.slice(0, MATCHES_MAX - matches.length));
        const isEnough = isLast || matches.length >= MATCHES_MAX;
        if (isEnough) setFound(matches);
        return !isEnough;
      };
      setAt(0);
      lines.search(sought, 0, tell).catch(() => setFound([]));
    }, 150);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [lines, rank, wanted]);
  const step = (by: number) => {
    if (!found || found.length === 0) return;
    const next = (at + by + found.length) % found.length;
    setAt(next);
    onShow(found[next] as number);
  };
  return (
    <form
      className="log-search"
      onSubmit={(event) => {
        event.preventDefault();
        step(1);
      }}
    >
      <Search value={wanted} onText={setWanted} label={t.searchLogs} />
      {found && (
        <>
          <span role="status" className="faint">
            {t.matches(found.length === 0 ? 0 : at + 1, found.length)}
            {found.length >= MATCHES_MAX && "+"}
          </span>
          <Button kind="quiet" onClick={() => step(-1)} aria-label={t.previous}>
            ↑
          </Button>
          <Button kind="quiet" onClick={() => step(1)} aria-label={t.next}>
            ↓
          </Button>
        </>
      )}
    </form>
  );
}
