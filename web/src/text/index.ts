/** The texts of the page. English is the measure: another language that lacks one, or has one too many, does not compile. */
import { useSyncExternalStore } from "react";
import { usePreference } from "../preferences";
import { en } from "./en";
import { ko } from "./ko";
import { zh } from "./zh";

export type Text = typeof en;
export type Language = "en" | "ko" | "zh";

export const LANGUAGES: [Language, string][] = [
  ["en", "English"],
  ["ko", "한국어"],
  ["zh", "中文"],
];
const TEXTS: Record<Language, Text> = { en, ko, zh };

/** The chosen language, or the first of the browser's that we have. */
export function useLanguage(): [Language, (language: Language) => void] {
  const own = useSyncExternalStore(
    (tell) => {
      addEventListener("languagechange", tell);
      return () => removeEventListener("languagechange", tell);
    },
    () => navigator.languages.map((name) => name.slice(0, 2)).find((name) => name in TEXTS) as Language | undefined,
  );
  return usePreference<Language>("language", own ?? "en");
}

export const useText = (): Text => TEXTS[useLanguage()[0]];
