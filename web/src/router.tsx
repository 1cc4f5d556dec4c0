/** Where in the page somebody is: the path and its query, links that change them, and patterns that read them. */
import { type AnchorHTMLAttributes, type MouseEvent, useMemo, useSyncExternalStore } from "react";

const MOVED = "volley:moved";

export function go(to: string, how: "push" | "replace" = "push"): void {
  history[how === "push" ? "pushState" : "replaceState"](null, "", to);
  dispatchEvent(new Event(MOVED));
}

function subscribe(tell: () => void): () => void {
  for (const kind of ["popstate", MOVED]) addEventListener(kind, tell);
  return () => {
    for (const kind of ["popstate", MOVED]) removeEventListener(kind, tell);
  };
}

export const usePath = (): string => useSyncExternalStore(subscribe, () => location.pathname);

export function useSearch(): URLSearchParams {
  const text = useSyncExternalStore(subscribe, () => location.search);
  return useMemo(() => new URLSearchParams(text), [text]);
}

/** This place with other values in its query; null takes one away. */
export function withSearch(changes: Record<string, string | null>): string {
  const search = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value === null ? search.delete(name) : search.set(name, value);
  const text = search.toString();
  return location.pathname + (text && `?${text}`);
}

/** A path from its parts, each of which may hold any character. */
export const pathOf = (...parts: string[]): string => `/${parts.map(encodeURIComponent).join("/")}`;

/** The values of a pattern such as `/:entity/:project/runs/:run`, or null where it does not fit. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const [wanted, given] = [pattern.split("/"), path.replace(/\/+$/, "").split("/")];
  if (wanted.length !== Math.max(given.length, 2)) return null;
  const values: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const text = given[index] ?? "";
    if (part.startsWith(":") && text !== "") values[part.slice(1)] = decodeURIComponent(text);
    else if (part !== text) return null;
  }
  return values;
}

export function Link({ to, onClick, ...rest }: { to: string } & AnchorHTMLAttributes<HTMLAnchorElement>) {
  const click = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (!isPlain || event.defaultPrevented) return;
    event.preventDefault();
    go(to);
  };
  return <a {...rest} href={to} onClick={click} />;
}
