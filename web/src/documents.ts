/** YAML and JSON texts: from and to values, what is wrong with them, and the template variables in them. */
import { isMap, parseDocument, stringify, visit } from "yaml";
import type { Language } from "./parts/editor";

export type Found = { from: number; to: number; severity: "error" | "warning"; message: string; actions?: Fix[] };
type Fix = {
  name: string;
  apply: (view: { dispatch: (change: { changes: { from: number; to: number; insert: string } }) => void }) => void;
};

/** JSON is YAML too, so one parser reads both. */
const parse = (text: string) => parseDocument(text, { prettyErrors: false });

export const toText = (value: unknown, language: Language = "yaml"): string =>
  language === "json" ? JSON.stringify(value, null, 2) : stringify(value, { lineWidth: 0 });

/** What people look for first in a manifest, and what is long and seldom read. */
const [FIRST, LAST] = [
  ["apiVersion", "kind", "metadata", "name", "image", "command", "args", "resources"],
  ["env", "status"],
];

/** The same value with its keys in the order in which manifests are read. */
export function inReadingOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inReadingOrder);
  if (typeof value !== "object" || value === null) return value;
  const rank = (key: string) => (FIRST.includes(key) ? FIRST.indexOf(key) : LAST.includes(key) ? 99 : 50);
  const sorted = Object.entries(value).sort(([one], [other]) => rank(one) - rank(other));
  return Object.fromEntries(sorted.map(([key, inner]) => [key, inReadingOrder(inner)]));
}

/** The value of a text, or null if it cannot be read. */
export function toValue(text: string): { value: unknown } | null {
  const document = parse(text);
  return document.errors.length > 0 ? null : { value: document.toJS() };
}

/** A text that must be an object; an empty one is. */
export function toObject(text: string): Record<string, unknown> | null {
  const value = toValue(text)?.value ?? (text.trim() === "" ? {} : null);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
}

export function problemsOf(text: string, words: { addQuotes: string; unquoted: (token: string) => string }): Found[] {
  const document = parse(text);
  const found: Found[] = [...document.errors, ...document.warnings].map(({ pos: [from, to], name, message }) => ({
    from: Math.min(from, text.length),
    to: Math.min(Math.max(to, from), text.length),
    severity: name === "YAMLWarning" ? "warning" : "error",
    message: message.split("\n")[0] ?? message,
  }));
  visit(document, {
    Map(_, node) {
      const [pair] = node.items;
      if (!node.flow || node.items.length !== 1 || !pair || !isMap(pair.key) || !pair.key.flow || !node.range) return;
      const [from, to] = node.range;
      const token = text.slice(from, to);
      const quote: Fix = {
        name: words.addQuotes,
        apply: (view) => view.dispatch({ changes: { from, to, insert: `'${token}'` } }),
      };
      found.push({
        from,
        to,
        severity: "error",
        message: words.unquoted(token),
        actions: [quote],
      });
      return visit.SKIP;
    },
  });
  return found;
}

/** `{{{{` is text; then comes a name or a sum, or braces that are text too. As the server reads it. */
const TOKEN = /\{\{(?:\{\{| *(?:([A-Za-z_][\w-]*) *|=([\s\S]*?))\}\})?/g;

/** The names in `{{name}}` and `{{= name + 1}}`, in the order in which they first stand in a config's values. */
export function variablesIn(value: unknown, names = new Set<string>()): Set<string> {
  if (typeof value === "string") {
    for (const [, name, sum = ""] of value.matchAll(TOKEN))
      for (const one of name ? [name] : (sum.match(/\b[A-Za-z_]\w*/g) ?? [])) names.add(one);
  } else if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) variablesIn(inner, names);
  }
  return names;
}
