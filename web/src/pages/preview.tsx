/** What would be submitted, before anything is: the server renders it as an agent would. */
import { useMemo } from "react";
import { Away } from "../api/client";
import { usePreview } from "../api/judge";
import { inReadingOrder, toText } from "../documents";
import { Editor } from "../parts/editor";
import { Icon } from "../parts/icon";
import { useText } from "../text";

/** `wanted` is null while a text of the form cannot be read. */
export function Preview({ wanted, hint }: { wanted: object | null; hint?: string }) {
  const t = useText();
  const { data, error } = usePreview(wanted);
  const text = useMemo(() => {
    // What the work needs beside it is submitted first, and read last.
    const isAside = (object: unknown) => Number((object as { kind?: unknown } | null)?.kind === "Secret");
    const objects = [...(data?.objects ?? [])].sort((one, other) => isAside(one) - isAside(other));
    return objects.map((object) => toText(inReadingOrder(object))).join("---\n");
  }, [data]);
  // It is told quietly: whoever submits is told aloud.
  const problems = error ? [error instanceof Away ? t.away : error.message] : (data?.problems ?? []);
  return (
    <section className="preview" aria-label={t.preview}>
      <h3>{t.preview}</h3>
      <p className="hint">{hint ?? t.previewHint}</p>
      {problems.length > 0 && (
        <ul className="problems" role="status">
          {problems.map((problem) => (
            <li key={problem}>
              <Icon name="alert" /> <span>{problem}</span>
            </li>
          ))}
        </ul>
      )}
      {!error && text && wanted === null && (
        <p className="verdict" role="status">
          <Icon name="alert" /> {t.previewOld}
        </p>
      )}
      {!error && text && <Editor label={t.preview} value={text} />}
      {!error && data && data.notes.length > 0 && (
        <ul className="notes">
          {data.notes.map((note) => (
            <li key={note} className="hint">
              {note}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
