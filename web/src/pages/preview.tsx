/** What would be submitted, before anything is: the server renders it as an agent would. */
import { useMemo } from "react";
import { usePreview } from "../api/judge";
import { toText } from "../documents";
import { Problem } from "../parts/basic";
import { Editor } from "../parts/editor";
import { Icon } from "../parts/icon";
import { useText } from "../text";

/** `wanted` is null while a text of the form cannot be read. */
export function Preview({ wanted, hint }: { wanted: object | null; hint?: string }) {
  const t = useText();
  const { data, error } = usePreview(wanted);
  const text = useMemo(() => (data?.objects ?? []).map((object) => toText(object)).join("---\n"), [data]);
  return (
    <section className="preview" aria-label={t.preview}>
      <h3>{t.preview}</h3>
      <p className="hint">{hint ?? t.previewHint}</p>
      {error ? (
        <Problem error={error} />
      ) : (
        <>
          {data && data.problems.length > 0 && (
            <ul className="problems" role="status">
              {data.problems.map((problem) => (
                <li key={problem}>
                  <Icon name="alert" /> <span>{problem}</span>
                </li>
              ))}
            </ul>
          )}
          {text && <Editor label={t.preview} value={text} />}
          {data && data.notes.length > 0 && (
            <ul className="notes">
              {data.notes.map((note) => (
                <li key={note} className="hint">
                  {note}
                </li>
              ))}
            </ul>
          )}
        </>
      )}
    </section>
  );
}
