/** The smallest pieces: buttons, badges, times, notices, empty places. */
import { type ButtonHTMLAttributes, type ReactNode, useEffect, useState } from "react";
import { Away } from "../api/client";
import { now } from "../api/clock";
import { type Text, useText } from "../text";
import { Icon, type IconName } from "./icon";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  kind?: "primary" | "plain" | "quiet" | "danger";
  icon?: IconName;
  isBusy?: boolean;
};

export function Button({ kind = "plain", icon, isBusy = false, children, className = "", onClick, ...rest }: ButtonProps) {
  // What is being done is not done twice; the button keeps the focus meanwhile.
  const click: typeof onClick = (event) => (isBusy ? event.preventDefault() : onClick?.(event));
  return (
    <button type="button" {...rest} className={`button ${kind} ${className}`} aria-disabled={isBusy || undefined} onClick={click}>
      {isBusy ? <span className="spinner" aria-hidden="true" /> : icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** Colours by what a state means; the word is always there too. */
const TONES: Record<string, "good" | "bad" | "busy" | "wait" | "calm"> = {
  running: "busy",
  finished: "good",
  active: "good",
  polling: "good",
  failed: "bad",
  crashed: "bad",
  killed: "calm",
  stopped: "calm",
  stopping: "wait",
  queued: "wait",
  pending: "wait",
  idle: "calm",
  succeeded: "good",
  unknown: "calm",
  ready: "good",
  cordoned: "wait",
  lost: "bad",
};

export function State({ name }: { name: string }) {
  const t = useText();
  const key = name.toLowerCase();
  const words: Record<string, string> = { ...t.phases, ...t.nodeStates, ...t.states };
  return (
    <span className={`state ${TONES[key] ?? "calm"}`}>
      <span className="dot" aria-hidden="true" />
      {words[key] ?? name}
    </span>
  );
}

/** The title of a page, which is also that of its window. */
export const Heading = ({ children }: { children: string }) => (
  <>
    <title>{`${children} · Volley`}</title>
    <h1>{children}</h1>
  </>
);

export const Badge = ({ children }: { children: ReactNode }) => <span className="badge">{children}</span>;

/** How long ago, which stays true while one looks; the exact time is its title. */
export function Ago({ at }: { at: string | null | undefined }) {
  const t = useText();
  const time = useNow();
  if (!at) return <span className="faint">–</span>;
  const date = new Date(at);
  // What has just happened may be ahead of a clock of whole seconds.
  const seconds = Math.max(0, (time - date.getTime()) / 1000);
  return (
    <time dateTime={at} title={date.toLocaleString(t.locale)}>
      {seconds < 5 ? t.justNow : relative(seconds, t.locale)}
    </time>
  );
}

export const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
] as const;

function relative(seconds: number, locale: string): string {
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? UNITS[3];
  return new Intl.RelativeTimeFormat(locale, { style: "narrow" }).format(-Math.floor(seconds / size), unit);
}

type DurationProps = { from: string | null | undefined; to?: string | null | undefined; isExact?: boolean };

/** While it goes on it is told in whole seconds, else the tenths would run. */
export function Duration({ from, to, isExact = false }: DurationProps) {
  const t = useText();
  const time = useNow();
  if (!from) return <span className="faint">–</span>;
  const end = to ? new Date(to).getTime() : time;
  const seconds = Math.max(0, (end - new Date(from).getTime()) / 1000);
  return <span className="number">{durationText(t, seconds, isExact && Boolean(to))}</span>;
}

/** `1h 05m`, `3m 20s`, `12s` in the page's language; `0.4s` where moments count. */
export function durationText({ units }: Text, seconds: number, isExact = false): string {
  if (isExact && seconds < 10) return `${seconds.toFixed(1)}${units.second}`;
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (number: number) => String(number).padStart(2, "0");
  if (hours >= 48) return `${Math.floor(hours / 24)}${units.day} ${hours % 24}${units.hour}`;
  if (hours > 0) return `${hours}${units.hour} ${two(minutes)}${units.minute}`;
  return minutes > 0 ? `${minutes}${units.minute} ${two(rest)}${units.second}` : `${rest}${units.second}`;
}

/** One clock for all times on the page, which goes while there are any. */
const ticks = new Set<(now: number) => void>();
let clock: ReturnType<typeof setInterval> | undefined;
const tickAll = () => {
  for (const tick of ticks) tick(now());
};

export function useNow(): number {
  const [time, setTime] = useState(now);
  useEffect(() => {
    ticks.add(setTime);
    clock ??= setInterval(tickAll, 1000);
    return () => {
      ticks.delete(setTime);
      if (ticks.size > 0) return;
      clearInterval(clock);
      clock = undefined;
    };
  }, []);
  return time;
}

/** What the server said no to. A hint, where it gave one, is on its own line. */
export function Problem({ error }: { error: Error | null | undefined }) {
  const t = useText();
  if (!error) return null;
  const text = error instanceof Away ? t.away : error.message;
  const [what, hint] = text.split("; hint: ");
  return (
    <div className="problem" role="alert">
      <Icon name="alert" />
      <div>
        <p>{what}</p>
        {hint && (
          <p className="hint">
            {t.hint}: {hint}
          </p>
        )}
      </div>
    </div>
  );
}

/** What a place says when there is nothing in it yet: what belongs here, and the next step. */
export function Empty({
  icon,
  title,
  children,
  action,
}: {
  icon: IconName;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className="empty">
      <span className="empty-icon">
        <Icon name={icon} />
      </span>
      <h2>{title}</h2>
      {children && <div className="empty-text">{children}</div>}
      {action && <div className="empty-action">{action}</div>}
    </div>
  );
}

/** The state of an answer: nothing yet, a problem, or what it brings. */
export function Answer<Data>({
  of,
  children,
}: {
  of: { data: Data | undefined; error: Error | null; isPending: boolean };
  children: (data: Data) => ReactNode;
}) {
  const t = useText();
  if (of.data !== undefined) return children(of.data);
  if (of.error) return <Problem error={of.error} />;
  return (
    <div className="skeleton" role="status" aria-label={t.loading}>
      <span />
      <span />
      <span />
    </div>
  );
}

export function Copy({ text, label }: { text: string; label: string }) {
  const t = useText();
  const [isDone, setIsDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setIsDone(true);
    setTimeout(() => setIsDone(false), 2000);
  };
  return (
    <Button kind="quiet" icon={isDone ? "check" : "copy"} onClick={copy} aria-label={label} title={label}>
      <span className="sr-only" role="status">
        {isDone ? t.copied : ""}
      </span>
    </Button>
  );
}

/** A command to run elsewhere. */
export function Command({ text }: { text: string }) {
  const t = useText();
  return (
    <div className="command">
      <pre>{text}</pre>
      <Copy text={text} label={t.copy} />
    </div>
  );
}

/** Facts as pairs; what is not known is left out. */
export function Facts({ of }: { of: [name: string, value: ReactNode][] }) {
  const known = of.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return (
    <dl className="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
