/**
 * An editor for YAML and JSON, by CodeMirror, with what is wrong marked where it is.
 *
 * It lives in a shadow root: there CodeMirror's styles are constructed sheets, which a strict content policy lets through.
 */
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, linter, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef, useState } from "react";
import { type Finding, offsetOf, type Report } from "../api/judge";
import { problemsOf } from "../documents";
import { useText } from "../text";

export type Language = "yaml" | "json";
type Props = {
  label: string;
  value: string;
  language?: Language;
  onChange?: (text: string) => void;
  /** What the server found, once it has looked; without this, the page itself looks whether the text can be read. */
  report?: Report | null;
  /** Where the cursor goes, each time that it is another object. */
  place?: Finding | null;
};

const THEME = EditorView.theme({
  "&": {
    fontSize: "13px",
    color: "var(--text)",
    backgroundColor: "var(--sunken)",
    borderRadius: "8px",
    border: "1px solid var(--line-strong)",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", maxHeight: "60vh", minHeight: "3em" },
  ".cm-content": { caretColor: "var(--accent)" },
  ".cm-cursor": { borderLeftColor: "var(--accent)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in oklab, var(--text) 4%, transparent)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    color: "var(--text)",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
  },
  ".cm-gutter-lint": { width: "1em" },
  ".cm-diagnostic": { padding: "6px 10px", whiteSpace: "pre-wrap", maxWidth: "52ch", fontFamily: "var(--sans)" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent-fill)", color: "var(--on-accent)", borderRadius: "4px" },
});
const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: [tags.string, tags.content], color: "var(--code-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
]);

const SEVERITIES = { note: "info", warning: "warning", error: "error" } as const;

/** A finding as CodeMirror marks it: the word that it begins at. */
function markOf(finding: Finding, text: string, fix: string): Diagnostic {
  const from = offsetOf(text, [finding.line, finding.column]);
  const [word] = /^["']?[^\s:,\]}"']+/.exec(text.slice(from)) ?? [""];
  const changes = (finding.edits ?? []).map((edit) => ({
    from: offsetOf(text, edit.from),
    to: offsetOf(text, edit.to),
    insert: edit.text,
  }));
  return {
    from,
    to: Math.min(text.length, from + Math.max(1, word.length)),
    severity: SEVERITIES[finding.severity],
    message: [`${finding.message} (${finding.code})`, finding.suggestion].filter(Boolean).join("\n"),
    actions: changes.length > 0 ? [{ name: fix, apply: (view) => view.dispatch({ changes }) }] : [],
  };
}

export function Editor({ label, value, language = "yaml", onChange, report, place }: Props) {
  const t = useText();
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const [syntax] = useState(() => new Compartment());
  const writing = useRef(onChange);
  writing.current = onChange;
  const isFixed = !onChange;
  const isJudged = report !== undefined;
  const first = useRef({ value, language });

  useEffect(() => {
    if (!host.current) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const lint = linter((shown) => problemsOf(shown.state.doc.toString(), t).map((found): Diagnostic => found), { delay: 200 });
    const editing = isFixed
      ? [EditorState.readOnly.of(true)]
      : [
          history(),
          highlightActiveLine(),
          isJudged ? lintGutter() : lint,
          EditorView.updateListener.of((update) => update.docChanged && writing.current?.(update.state.doc.toString())),
        ];
    const made = new EditorView({
      parent: root,
      root,
      doc: first.current.value,
      extensions: [
        lineNumbers(),
        drawSelection(),
        indentUnit.of("  "),
        keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]),
        syntax.of(first.current.language === "yaml" ? yaml() : json()),
        syntaxHighlighting(COLOURS),
        THEME,
        EditorView.contentAttributes.of({ "aria-label": label, ...(isFixed ? { "aria-readonly": "true", tabindex: "0" } : {}) }),
        ...editing,
      ],
    });
    view.current = made;
    return () => made.destroy();
  }, [label, isFixed, isJudged, syntax, t]);

  useEffect(() => {
    const shown = view.current;
    // A report on an older text would mark the wrong words; the one on this text is on its way.
    if (!shown || !report || report.text !== shown.state.doc.toString()) return;
    shown.dispatch(
      setDiagnostics(
        shown.state,
        report.findings.map((finding) => markOf(finding, report.text, t.fix)),
      ),
    );
  }, [report, t]);

  useEffect(() => {
    const shown = view.current;
    if (!shown || !place) return;
    const at = Math.min(shown.state.doc.length, offsetOf(shown.state.doc.toString(), [place.line, place.column]));
    shown.dispatch({ selection: { anchor: at }, scrollIntoView: true });
    shown.focus();
  }, [place]);

  useEffect(() => {
    view.current?.dispatch({ effects: syntax.reconfigure(language === "yaml" ? yaml() : json()) });
  }, [language, syntax]);

  useEffect(() => {
    first.current = { value, language };
    const shown = view.current;
    const text = shown?.state.doc.toString();
    if (shown && text !== value) shown.dispatch({ changes: { from: 0, to: text?.length ?? 0, insert: value } });
  }, [value, language]);

  return <div className="editor" ref={host} />;
}
