/** What a person chose about the page itself, and what they typed but have not sent: kept by the browser. */
import { useCallback, useEffect, useState, useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
const subscribe = (tell: () => void) => {
  listeners.add(tell);
  return () => listeners.delete(tell);
};

/** A choice that outlives the window, and is the same everywhere in the page. */
export function usePreference<Value extends string>(name: string, fallback: Value): [Value, (value: Value) => void] {
  const key = `volley.${name}`;
  const value = useSyncExternalStore(subscribe, () => (localStorage.getItem(key) as Value | null) ?? fallback);
  const set = (next: Value) => {
    localStorage.setItem(key, next);
    for (const tell of listeners) tell();
  };
  return [value, set];
}

export type Theme = "system" | "light" | "dark";

/** The colours: the system's, or the chosen ones. */
export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = usePreference<Theme>("theme", "system");
  useEffect(() => {
    document.documentElement.style.colorScheme = theme === "system" ? "light dark" : theme;
  }, [theme]);
  return [theme, setTheme];
}

/** Puts values into a form that is opened next. */
export const keepDraft = (name: string, form: object): void =>
  sessionStorage.setItem(`volley.draft.${name}`, JSON.stringify(form));

export const hasDraft = (name: string): boolean => sessionStorage.getItem(`volley.draft.${name}`) !== null;

/** A form's values. They survive a closed drawer, a reload and a server that is away, until `forget`. */
export function useDraft<Form extends object>(name: string, initial: Form) {
  const key = `volley.draft.${name}`;
  const [form, setForm] = useState<Form>(() => {
    const kept = sessionStorage.getItem(key);
    return kept === null ? initial : { ...initial, ...JSON.parse(kept) };
  });
  const change = useCallback(
    (changes: Partial<Form>) =>
      setForm((before) => {
        const after = { ...before, ...changes };
        sessionStorage.setItem(key, JSON.stringify(after));
        return after;
      }),
    [key],
  );
  const forget = useCallback(() => sessionStorage.removeItem(key), [key]);
  /** Null where there is nothing to take back. */
  const startOver = sessionStorage.getItem(key) === null ? null : () => [forget(), setForm(initial)];
  return { form, change, forget, startOver };
}
