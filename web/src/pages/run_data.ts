/** What the server tells of runs, read into what pages show. */
import type { RunRow } from "../api/generated";

/** A config as a person wrote it: the client wraps each value, and keeps things of its own in it. */
export function plainConfig(text: string | null | undefined): Record<string, unknown> {
  const wrapped = object(text);
  const own = Object.entries(wrapped).filter(([name]) => name !== "_wandb");
  const isWrapped = (value: unknown): value is { value: unknown } =>
    typeof value === "object" && value !== null && "value" in value;
  return Object.fromEntries(own.map(([name, value]) => [name, isWrapped(value) ? value.value : value]));
}

/** The summary without what the client adds. */
export function plainSummary(text: string | null | undefined): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object(text)).filter(([name]) => !name.startsWith("_")));
}

/** The queue item that a run was launched from. */
export function traceOf(config: string | null | undefined): { queue: string; item: string } | null {
  const own = (object(config)._wandb as { value?: Record<string, unknown> } | undefined)?.value ?? {};
  const { launch_trace_id: item, launch_queue_name: queue } = own;
  return typeof item === "string" && typeof queue === "string" ? { item, queue } : null;
}

function object(text: string | null | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text ?? "{}");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    // A client may write NaN, which is no JSON; such a config is shown as empty rather than as a fault.
    return {};
  }
}

export const isRunning = (run: { state: string | null }): boolean => run.state === "running" || run.state === "pending";

/** W&B's clients know no run that was stopped: to them it failed. */
export const stateOf = (run: { state: string | null; stopped: boolean | null }): string =>
  run.stopped && run.state === "failed" ? "stopped" : (run.state ?? "");

/** When a run was last heard of is when it ended. */
export const endOf = (run: RunRow): string | null => (isRunning(run) ? null : run.heartbeatAt);

export const nameOf = (run: { displayName: string | null; name: string }): string => run.displayName || run.name;

/** A value in one line. */
export const brief = (value: unknown): string =>
  typeof value === "number"
    ? Intl.NumberFormat("en", { maximumSignificantDigits: 5, useGrouping: false }).format(value)
    : typeof value === "string"
      ? value
      : JSON.stringify(value);
