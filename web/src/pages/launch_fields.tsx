/** The parts of the launch drawer: what is launched, the values of template variables, the queue's config for this launch. */
import { useMemo } from "react";
import { Jobs, Projects, type QueueRow } from "../api/generated";
import { useAsk } from "../api/live";
import { toObject, toText } from "../documents";
import { Editor } from "../parts/editor";
import { Segmented, SelectField, TextField } from "../parts/form";
import { useText } from "../text";
import type { LaunchForm } from "./launch_form";
import { useJob } from "./launch_inputs";
import { innerConfig, isNumeric, numberIn, type Schema } from "./queue_data";
import { projectsOf } from "./sidebar";

export function What({
  entity,
  form,
  change,
}: {
  entity: string;
  form: LaunchForm;
  change: (changes: Partial<LaunchForm>) => void;
}) {
  const t = useText();
  const projects = projectsOf(useAsk(Projects, { entity }).data);
  const jobs = useAsk(Jobs, { entity, project: form.project }, { enabled: form.what === "job" && form.project !== "" });
  const names = (jobs.data?.project?.artifactType?.artifactCollections?.edges ?? []).flatMap(({ node }) =>
    node ? [`${entity}/${form.project}/${node.name}`] : [],
  );
  const [job = "", version = ""] = form.job.split(":");
  const choices = [...new Set([job, ...names])].filter(Boolean);
  return (
    <>
      <Segmented
        label={t.whatToLaunch}
        value={form.what}
        choices={[
          ["image", t.image],
          ["job", t.job],
        ]}
        onChoose={(what) => change({ what })}
      />
      {form.what === "image" ? (
        <TextField
          label={t.image}
          value={form.image}
          placeholder="ghcr.io/team/train:1"
          onText={(image) => change({ image })}
          required
        />
      ) : (
        <div className="columns">
          <SelectField
            required
            label={t.job}
            value={job}
            hint={choices.length === 0 ? t.noJobsHere : undefined}
            choices={[{ value: "", label: t.choose }, ...choices.map((value) => ({ value, label: value }))]}
            onText={(name) => change({ job: name && `${name}:latest` })}
          />
          {job && <Versions job={job} version={version} onVersion={(next) => change({ job: `${job}:${next}` })} />}
        </div>
      )}
      <div className="columns">
        <TextField
          label={t.project}
          hint={t.projectHint}
          list="projects"
          value={form.project}
          onText={(project) => change({ project })}
          required
        />
        <TextField label={t.runName} hint={t.optional} value={form.name} onText={(name) => change({ name })} />
      </div>
      <datalist id="projects">
        {projects.map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}

function Versions({ job, version, onVersion }: { job: string; version: string; onVersion: (version: string) => void }) {
  const t = useText();
  const known = (useJob(job)?.artifacts?.edges ?? []).flatMap(({ version, node }) => [
    ...node.aliases.map(({ alias }) => alias),
    ...(version ? [version] : []),
  ]);
  const choices = [...new Set([version, ...known])].map((value) => ({ value, label: value }));
  return <SelectField label={t.version} value={version} choices={choices} onText={onVersion} />;
}

/** One template variable. What its limits do not allow is marked at once; the server has the last word. */
export function Value({
  name,
  description,
  schema,
  text,
  isRequired = false,
  onText,
}: {
  name: string;
  description: string | null;
  schema: Schema;
  text: string | undefined;
  isRequired?: boolean;
  onText: (text: string) => void;
}) {
  const t = useText();
  const hint = [description, t.constraint(schema)].filter(Boolean).join(" · ");
  const shown = text ?? "";
  const placeholder = schema.default === undefined ? "" : String(schema.default);
  const options = schema.type === "boolean" ? [true, false] : schema.enum;
  if (options) {
    const choices = [
      { value: "", label: placeholder || t.choose },
      ...options.map((option) => ({ value: String(option), label: String(option) })),
    ];
    return <SelectField label={name} hint={hint} value={shown} choices={choices} onText={onText} required={isRequired} />;
  }
  const number = numberIn(shown);
  const isWrong =
    isNumeric(schema) &&
    shown !== "" &&
    (number === null ||
      (schema.type === "integer" && !Number.isInteger(number)) ||
      number < (schema.minimum ?? number) ||
      number > (schema.maximum ?? number));
  return (
    <TextField
      label={name}
      hint={hint}
      error={isWrong ? t.notAllowed : undefined}
      inputMode={isNumeric(schema) ? "decimal" : "text"}
      value={shown}
      placeholder={placeholder}
      required={isRequired && placeholder === ""}
      onText={onText}
    />
  );
}

/** Where the queue fixes its template, others may only set its variables; elsewhere the whole config can be edited. */
export function ResourceConfig({
  queue,
  text,
  onText,
}: {
  queue: QueueRow;
  text: string | null;
  onText: (text: string | null) => void;
}) {
  const t = useText();
  const own = useMemo(() => toText(innerConfig(queue.defaultResourceConfig)), [queue]);
  const isReadable = useMemo(() => text === null || toObject(text) !== null, [text]);
  const isTemplate = (queue.defaultResourceConfig?.templateVariables.length ?? 0) > 0;
  return (
    <details open={text !== null}>
      <summary>
        {t.resourceConfig}
        {text !== null && <span className="badge">{t.changed}</span>}
      </summary>
      <p className="hint">{isTemplate ? t.resourceConfigFixed : t.resourceConfigHint}</p>
      {isTemplate ? (
        <Editor label={t.resourceConfig} value={own} />
      ) : (
        <Editor label={t.resourceConfig} value={text ?? own} onChange={(next) => onText(next === own ? null : next)} />
      )}
      {!isReadable && <p className="error">{t.unreadable}</p>}
    </details>
  );
}
