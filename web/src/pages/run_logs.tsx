/** A run's output: any number of lines, of which only those in sight are read. Search goes through all of them. */
import { useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useReducer, useRef, useState } from "react";
import { ask } from "../api/client";
import { LogLines, type LogLinesData } from "../api/generated";
import { Button, Empty } from "../parts/basic";
import { Switch } from "../parts/form";
import { Icon } from "../parts/icon";
import { Search } from "../parts/table";
import { useText } from "../text";
import type { RunDetails, Where } from "./run";
import { isRunning } from "./run_data";

type Line = NonNullable<NonNullable<NonNullable<LogLinesData["project"]>["run"]>["logLines"]>["edges"][number]["node"];

/** Lines are read in pieces of this many. */
const PIECE = 1000;
const LINE_HEIGHT = 20;
/** More matches are not listed; one then searches for something rarer. */
const MATCHES_MAX = 1000;
const ERROR = /error\b|exception\b|\btraceback\b|\bfatal\b|\bpanicked\b/i;
/** The first error is looked for among so many lines, because it is there or nobody waits for it. */
const ERROR_LINES_MAX = 50_000;

/** The server's cursors name the last line that was sent; a piece begins behind the one before it. */
const cursor = (line: number): string | null => (line <= 0 ? null : btoa(`cursor:${line - 1}`));

class Lines {
  private pieces = new Map<number, Promise<Line[]>>();
  readonly known = new Map<number, Line>();
  constructor(private where: Where) {}

  /** A piece that was cut short, because the run had not written it all, is read again. */
  piece(index: number, total: number): Promise<Line[]> {
    const [from, to] = [index * PIECE, Math.min(total, (index + 1) * PIECE)];
    const kept = this.pieces.get(index);
    if (kept && this.known.has(to - 1)) return kept;
    const read = ask(LogLines, { ...this.where, first: PIECE, after: cursor(from) }).then((data) => {
      const lines = data.project?.run?.logLines?.edges.map(({ node }) => node) ?? [];
      for (const [offset, line] of lines.entries()) this.known.set(from + offset, line);
      return lines;
    });
    this.pieces.set(index, read);
    read.catch(() => this.pieces.delete(index));
    return read;
  }
}

export function LogsTab({ where, run }: { where: Where; run: RunDetails }) {
  const t = useText();
  const total = run.logLineCount ?? 0;
  if (total === 0)
    return (
      <Empty icon="text" title={isRunning(run) ? t.waitingForLogs : t.noLogs}>
        <p>{t.noLogsText}</p>
      </Empty>
    );
  return <Log where={where} run={run} total={total} />;
}

function Log({ where, run, total }: { where: Where; run: RunDetails; total: number }) {
  const t = useText();
  const box = useRef<HTMLDivElement>(null);
  const [lines] = useState(() => new Lines(where));
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const [isFollowing, setIsFollowing] = useState(() => isRunning(run));
  const [current, setCurrent] = useState<number | null>(null);
  const virtual = useVirtualizer({
    count: total,
    estimateSize: () => LINE_HEIGHT,
    overscan: 30,
    getScrollElement: () => box.current,
  });
  const items = virtual.getVirtualItems();
  const [first, last] = [Math.floor((items[0]?.index ?? 0) / PIECE), Math.floor((items.at(-1)?.index ?? 0) / PIECE)];
  useEffect(() => {
    for (let piece = first; piece <= last; piece++) lines.piece(piece, total).then(redraw, redraw);
  }, [lines, first, last, total]);
  useEffect(() => {
    if (isFollowing) virtual.scrollToIndex(total - 1, { align: "end" });
  }, [isFollowing, total, virtual]);
  const show = (line: number) => {
    setIsFollowing(false);
    setCurrent(line);
    virtual.scrollToIndex(line, { align: "center" });
  };
  const error = useFirstError(lines, run, total);
  return (
    <>
      <div className="tools">
        <LogSearch lines={lines} total={total} onShow={show} />
        <Switch label={t.follow} isOn={isFollowing} onSwitch={setIsFollowing} />
      </div>
      {error !== null && (
        <button type="button" className="pinned" onClick={() => show(error.at)}>
          <Icon name="alert" />
          <strong>{t.firstError(error.at + 1)}</strong>
          <code className="cut">{error.text}</code>
        </button>
      )}
      <div
        className="log"
        ref={box}
        role="log"
        aria-label={t.logs}
        aria-live="off"
        tabIndex={0}
        onWheel={(event) => event.deltaY < 0 && setIsFollowing(false)}
      >
        <div style={{ height: virtual.getTotalSize() }}>
          {items.map(({ index, start }) => {
            const line = lines.known.get(index);
            const isError = line !== undefined && (line.level === "error" || ERROR.test(line.line ?? ""));
            return (
              <div
                key={index}
                className={`line ${isError ? "bad" : ""} ${index === current ? "current" : ""}`}
                style={{ transform: `translateY(${start}px)` }}
              >
                <span className="line-number">{index + 1}</span>
                {line?.label && <span className="line-label">{line.label}</span>}
                <span>{line?.line ?? "…"}</span>
              </div>
            );
          })}
        </div>
      </div>
    </>
  );
}

/** The first line that tells of an error, of a run that did not end well. */
function useFirstError(lines: Lines, run: RunDetails, total: number): { at: number; text: string } | null {
  const known = useQueryClient();
  const [found, setFound] = useState<{ at: number; text: string } | null>(null);
  const hasFailed = run.state === "failed" || run.state === "crashed";
  useEffect(() => {
    if (!hasFailed) return;
    let isGone = false;
    search(
      lines,
      Math.min(total, ERROR_LINES_MAX),
      (line) => line.level === "error" || ERROR.test(line.line ?? ""),
      1,
      () => isGone,
    ).then(
      ([at]) => at !== undefined && !isGone && setFound({ at, text: lines.known.get(at)?.line ?? "" }),
      () => known.invalidateQueries({ queryKey: ["Run"] }),
    );
    return () => {
      isGone = true;
    };
  }, [lines, hasFailed, total, known]);
  return found;
}

async function search(
  lines: Lines,
  total: number,
  fits: (line: Line) => boolean,
  limit: number,
  isGone: () => boolean,
): Promise<number[]> {
  const found: number[] = [];
  for (let piece = 0; piece * PIECE < total && found.length < limit && !isGone(); piece++) {
    for (const [offset, line] of (await lines.piece(piece, total)).entries()) if (fits(line)) found.push(piece * PIECE + offset);
  }
  return found.slice(0, limit);
}

function LogSearch({ lines, total, onShow }: { lines: Lines; total: number; onShow: (line: number) => void }) {
  const t = useText();
  const [wanted, setWanted] = useState("");
  const [found, setFound] = useState<number[] | null>(null);
  const [at, setAt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines do not start the search again
  useEffect(() => {
    const needle = wanted.toLowerCase();
    if (needle === "") return setFound(null);
    let isGone = false;
    const timer = setTimeout(async () => {
      const matches = await search(
        lines,
        total,
        (line) => (line.line ?? "").toLowerCase().includes(needle),
        MATCHES_MAX,
        () => isGone,
      ).catch(() => []);
      if (isGone) return;
      setFound(matches);
      setAt(0);
      if (matches[0] !== undefined) onShow(matches[0]);
    }, 150);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [wanted]);
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
