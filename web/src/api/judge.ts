/** What the server thinks of something that is not sent yet: what is wrong with a document, and what a launch would submit. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { send } from "./client";

/** Lines and columns are counted from 1, columns in characters. */
export type Place = [line: number, column: number];
export type Change = { from: Place; to: Place; text: string };
export type Finding = {
  code: string;
  severity: "note" | "warning" | "error";
  line: number;
  column: number;
  path?: string;
  message: string;
  suggestion?: string;
  autofix: boolean;
  edits?: Change[];
};
/** `fixed` is the text with all that can safely be mended. */
export type Report = { text: string; findings: Finding[]; fixed?: string };
export type Shown = { objects: unknown[]; notes: string[]; problems: string[] };

/** Somebody who types is not interrupted more often than this. */
const PAUSE_MS = 250;

/** A value that has stood still for a moment. */
function useSettled<Value>(value: Value): Value {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** `variables` are the types of template variables by name. What is not a cluster's is not judged. */
export function useReport(text: string, variables: Record<string, string>, isCluster: boolean): Report | null {
  const settled = useSettled(JSON.stringify({ text, variables }));
  const answer = useQuery({
    queryKey: ["Check", settled],
    queryFn: async () => {
      const asked = JSON.parse(settled) as { text: string };
      return { ...((await send("POST", "/api/v1/check", asked)) as Report), text: asked.text };
    },
    enabled: isCluster,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    placeholderData: keepPreviousData,
  });
  return isCluster ? (answer.data ?? null) : null;
}

/** Null asks for nothing: then there is nothing to show either. */
export function usePreview(wanted: object | null) {
  const settled = useSettled(wanted && JSON.stringify(wanted));
  return useQuery({
    queryKey: ["Preview", settled],
    queryFn: async () => (await send("POST", "/api/v1/preview", JSON.parse(settled ?? "{}"))) as Shown,
    enabled: settled !== null,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    placeholderData: keepPreviousData,
    retry: false,
  });
}

/** Where a place is in a text, as the browser counts. */
export function offsetOf(text: string, [line, column]: Place): number {
  let start = 0;
  for (let before = 1; before < line; before++) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  const end = text.indexOf("\n", start);
  const own = text.slice(start, end < 0 ? text.length : end);
  return start + [...own].slice(0, column - 1).join("").length;
}

/** A text with changes that do not touch each other. */
export function mended(text: string, changes: Change[]): string {
  const spans = changes.map(({ from, to, text: insert }) => ({ from: offsetOf(text, from), to: offsetOf(text, to), insert }));
  spans.sort((one, other) => other.from - one.from);
  return spans.reduce((now, { from, to, insert }) => now.slice(0, from) + insert + now.slice(to), text);
}
