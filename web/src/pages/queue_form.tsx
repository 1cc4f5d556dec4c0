/** The config of a queue as a form: the text, and a tile for each template variable found in it. */
import { useMemo, useRef, useState } from "react";
import { type Finding, useReport } from "../api/judge";
import { toText, toValue, variablesIn } from "../documents";
import { Button } from "../parts/basic";
import { Editor, type Language } from "../parts/editor";
import { Findings } from "../parts/findings";
import { Segmented, SelectField, TextField } from "../parts/form";
import { useText } from "../text";
import { VARIABLE_TYPES } from "./queue_data";
import { type ConfigForm, hasLimits, wrongNumbers } from "./queue_draft";
import { NEW_VARIABLE, type VariableDraft } from "./templates";

type FieldsProps = { form: ConfigForm; resource: string; change: (changes: Partial<ConfigForm>) => void };

export function ConfigFields({ form, resource, change }: FieldsProps) {
  const t = useText();
  const tiles = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState<Finding | null>(null);
  const read = useMemo(() => toValue(form.text), [form.text]);
  const names = useMemo(() => [...variablesIn(read?.value)], [read]);
  const types = Object.fromEntries(names.map((name) => [name, (form.variables[name] ?? NEW_VARIABLE).type]));
  const report = useReport(form.text, types, resource === "kubernetes");
  const choose = (language: Language) => change(read ? { language, text: toText(read.value, language) } : { language });
  const parse = () => tiles.current?.querySelector("select")?.focus();
  return (
    <>
      <div className="field">
        <div className="field-head">
          <span className="label">{t.configuration}</span>
          <Segmented
            label={t.language}
            value={form.language}
            choices={[
              ["yaml", "YAML"],
              ["json", "JSON"],
            ]}
            onChoose={choose}
          />
        </div>
        <Editor
          label={t.configuration}
          value={form.text}
          language={form.language}
          onChange={(text) => change({ text })}
          {...(resource === "kubernetes" && { report, place })}
        />
        <p className="hint">
          {t.macroHint} <code>{"${image_uri}"}</code> <code>{"${run_id}"}</code> · {t.variableHint} <code>{"'{{gpus}}'"}</code>
        </p>
      </div>
      {report && <Findings report={report} onText={(text) => change({ text })} onPlace={(finding) => setPlace({ ...finding })} />}
      <div className="parse">
        <Button icon="code" onClick={parse}>
          {t.parse}
        </Button>
        <span role="status" className={read ? "faint" : "error"}>
          {read ? t.variablesFound(names.length) : t.unreadable}
        </span>
      </div>
      <div ref={tiles} className="tiles">
        {names.map((name) => (
          <Tile
            key={name}
            name={name}
            draft={form.variables[name] ?? NEW_VARIABLE}
            onDraft={(draft) =>
              change({ variables: { ...form.variables, [name]: { ...NEW_VARIABLE, ...form.variables[name], ...draft } } })
            }
          />
        ))}
      </div>
    </>
  );
}

function Tile({
  name,
  draft,
  onDraft,
}: {
  name: string;
  draft: VariableDraft;
  onDraft: (draft: Partial<VariableDraft>) => void;
}) {
  const t = useText();
  const isLimited = hasLimits(draft);
  const limitHint = draft.type === "quantity" ? t.quantityLimit : draft.type === "duration" ? t.durationLimit : undefined;
  const wrong = wrongNumbers(draft);
  const errorOf = (name: (typeof wrong)[number]) => (wrong.includes(name) ? t.notNumber : undefined);
  const types = VARIABLE_TYPES.map((type) => ({ value: type, label: t.types[type] }));
  return (
    <fieldset className="tile">
      <legend>
        <code className="chip">{`{{${name}}}`}</code>
      </legend>
      <SelectField
        label={t.type}
        value={draft.type}
        choices={types}
        onText={(type) => onDraft({ type: type as VariableDraft["type"] })}
      />
      {isLimited && (
        <TextField
          label={t.minimum}
          hint={limitHint}
          inputMode="decimal"
          error={errorOf("minimum")}
          value={draft.minimum}
          onText={(minimum) => onDraft({ minimum })}
        />
      )}
      {isLimited && (
        <TextField
          label={t.maximum}
          hint={limitHint}
          inputMode="decimal"
          error={errorOf("maximum")}
          value={draft.maximum}
          onText={(maximum) => onDraft({ maximum })}
        />
      )}
      {draft.type !== "boolean" && (
        <TextField
          label={t.options}
          hint={t.optionsHint}
          error={errorOf("options")}
          value={draft.options}
          onText={(options) => onDraft({ options })}
        />
      )}
      <TextField
        label={t.default}
        error={errorOf("default")}
        value={draft.default}
        onText={(value) => onDraft({ default: value })}
      />
      <TextField label={t.description} value={draft.description} onText={(description) => onDraft({ description })} />
    </fieldset>
  );
}
