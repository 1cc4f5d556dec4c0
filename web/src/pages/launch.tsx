/**
 * The launch drawer: a job or an image, into a queue, with overrides and template values.
 *
 * It is filled from where it was opened: a queue, an item ("launch again"), a job or a run. The server judges what is sent.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { ask } from "../api/client";
import { Jobs, Projects, Push, QueueItem, type QueueRow, Queues, Run } from "../api/generated";
import { refresh, useAsk, useDeed } from "../api/live";
import { toObject, toText } from "../documents";
import { Answer, Button, Empty, Problem } from "../parts/basic";
import { Drawer, StartOver } from "../parts/drawer";
import { Editor } from "../parts/editor";
import { Segmented, SelectField, TextField } from "../parts/form";
import { useDraft } from "../preferences";
import { go, Link, pathOf } from "../router";
import { useText } from "../text";
import { hasAgent, imageOf, innerConfig, REGISTRY, resourceName, type Schema, type Spec, schemaOf, typed } from "./queue_data";
import { plainConfig, traceOf } from "./run_data";
import { projectsOf } from "./sidebar";

type From = { queue: string | null; item: string | null; job: string | null; run: string | null };
type Props = { entity: string; project: string | null; from: From; onClose: () => void };
type Form = {
  what: "job" | "image";
  job: string;
  image: string;
  name: string;
  project: string;
  queue: string;
  entryPoint: string;
  args: string;
  runConfig: string;
  /** Null until somebody edits it: then the queue's own is used. */
  resourceConfig: string | null;
  values: Record<string, string>;
  priority: string;
};

export default function LaunchDrawer(props: Props) {
  const t = useText();
  const queues = useAsk(Queues, { entity: props.entity, project: REGISTRY });
  const { entity, project, from } = props;
  const initial = useQuery({
    queryKey: ["LaunchFrom", entity, project, from],
    queryFn: () => fill(entity, project, from),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (!queues.data || !initial.data)
    return (
      <Drawer title={t.launchDeed} onClose={props.onClose}>
        <Answer of={queues.data ? initial : queues}>{() => null}</Answer>
      </Drawer>
    );
  return <Filled {...props} queues={queues.data.project?.runQueues ?? []} initial={initial.data} />;
}

const EMPTY: Form = {
  what: "image",
  job: "",
  image: "",
  name: "",
  project: "",
  queue: "",
  entryPoint: "",
  args: "",
  runConfig: "",
  resourceConfig: null,
  values: {},
  priority: "2",
};

/** What the form begins with. */
async function fill(entity: string, project: string | null, from: From): Promise<Form> {
  const projects = project ? [] : projectsOf(await ask(Projects, { entity }));
  const form = { ...EMPTY, project: project ?? projects[0]?.name ?? "", queue: from.queue ?? "" };
  if (from.job) return { ...form, what: "job", job: from.job };
  let queue = from.queue;
  let item = from.item;
  if (from.run && project) {
    const run = (await ask(Run, { entity, project, run: from.run })).project?.run;
    form.runConfig = configText(plainConfig(run?.config));
    const trace = traceOf(run?.config);
    const job = run?.inputArtifacts?.edges.find(({ node }) => node?.artifactType.name === "job")?.node;
    if (job)
      Object.assign(form, {
        what: "job",
        job: `${job.artifactSequence.project?.entityName}/${job.artifactSequence.project?.name}/${job.artifactSequence.name}:v${job.versionIndex}`,
      });
    if (!trace) return form;
    ({ queue, item } = trace);
  }
  if (!queue || !item) return form;
  const answer = await ask(QueueItem, { entity, project: REGISTRY, queue, id: item });
  const found = answer.project?.runQueue?.runQueueItem;
  if (!found) return form;
  const spec = (found.runSpec ?? {}) as Spec;
  const values = Object.entries((found.templateVariableValues ?? {}) as Record<string, unknown>).map(([name, value]) => [
    name,
    String(value),
  ]);
  return {
    ...form,
    queue,
    what: spec.job ? "job" : "image",
    job: spec.job ?? "",
    image: imageOf(spec),
    name: spec.name ?? "",
    project: spec.project ?? form.project,
    entryPoint: joined(spec.overrides?.entry_point ?? []),
    args: joined(spec.overrides?.args ?? []),
    runConfig: configText(spec.overrides?.run_config ?? {}),
    values: Object.fromEntries(values),
    priority: String(found.priority ?? 2),
  };
}

const configText = (config: Record<string, unknown>): string => (Object.keys(config).length > 0 ? toText(config) : "");

/** Words as a shell would read them, and back. */
export const words = (text: string): string[] =>
  [...text.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, bare]) => double?.replace(/\\(.)/g, "$1") ?? single ?? bare ?? "",
  );
const joined = (list: string[]): string => list.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word}'`)).join(" ");

function Filled({ entity, from, onClose, queues, initial }: Props & { queues: QueueRow[]; initial: Form }) {
  const t = useText();
  const known = useQueryClient();
  const { form, change, forget, startOver } = useDraft(`launch.${Object.values(from).join(".")}`, {
    ...initial,
    queue: initial.queue || (queues[0]?.name ?? ""),
  });
  const queue = queues.find(({ name }) => name === form.queue);
  const push = useDeed(Push, "Queues");
  const config = queue?.defaultResourceConfig ?? null;
  const runConfig = useMemo(() => toObject(form.runConfig), [form.runConfig]);
  const resourceConfig = useMemo(
    () => (form.resourceConfig === null ? null : toObject(form.resourceConfig)),
    [form.resourceConfig],
  );
  const isReadable = runConfig !== null && (form.resourceConfig === null || resourceConfig !== null);
  const submit = () => {
    if (!queue || !isReadable || push.isPending) return;
    const overrides = {
      ...(form.args.trim() && { args: words(form.args) }),
      ...(form.entryPoint.trim() && { entry_point: words(form.entryPoint) }),
      ...(Object.keys(runConfig).length > 0 && { run_config: runConfig }),
    };
    const spec = {
      entity,
      project: form.project,
      ...(form.name && { name: form.name }),
      ...(form.what === "job" ? { job: form.job } : { docker: { docker_image: form.image } }),
      ...(Object.keys(overrides).length > 0 && { overrides }),
      ...(resourceConfig && config && { resource: config.resource, resource_args: { [config.resource]: resourceConfig } }),
    };
    const values = (config?.templateVariables ?? []).flatMap((variable) => {
      const text = form.values[variable.name] ?? "";
      return text === "" ? [] : [[variable.name, typed(text, schemaOf(variable))]];
    });
    const input = {
      queueID: queue.id,
      runSpec: JSON.stringify(spec),
      templateVariableValues: JSON.stringify(Object.fromEntries(values)),
      ...(queue.prioritizationMode === "V0" && { priority: Number(form.priority) }),
    };
    const leave = () => {
      forget();
      refresh(known, ["Items"]);
      go(pathOf("launch", entity, queue.name, "runs"));
    };
    push.mutate({ input }, { onSuccess: leave });
  };
  if (queues.length === 0)
    return (
      <Drawer title={t.launchDeed} onClose={onClose}>
        <Empty
          icon="queue"
          title={t.noQueues}
          action={
            <Link className="button primary" to="/launch?open=queue">
              {t.createQueue}
            </Link>
          }
        >
          <p>{t.noQueuesText}</p>
        </Empty>
      </Drawer>
    );
  const footer = (
    <>
      <StartOver deed={startOver} />
      <Button onClick={onClose}>{t.cancel}</Button>
      <Button kind="primary" type="submit" form="launch" icon="rocket" isBusy={push.isPending}>
        {t.launchNow}
      </Button>
    </>
  );
  return (
    <Drawer title={from.item || from.run ? t.launchAgain : t.launchDeed} onClose={onClose} footer={footer}>
      <form
        id="launch"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <What entity={entity} form={form} change={change} />
        <h3>{t.whereTo}</h3>
        <SelectField
          label={t.queue}
          value={form.queue}
          choices={queues.map((one) => ({
            value: one.name,
            label: `${one.name} · ${resourceName(one.defaultResourceConfig?.resource)}${hasAgent(one) ? "" : ` · ${t.willWait}`}`,
          }))}
          onText={(queue) => change({ queue, resourceConfig: null })}
        />
        {(config?.templateVariables ?? []).map((variable) => (
          <Value
            key={variable.name}
            name={variable.name}
            description={variable.description}
            schema={schemaOf(variable)}
            text={form.values[variable.name]}
            onText={(text) => change({ values: { ...form.values, [variable.name]: text } })}
          />
        ))}
        {queue?.prioritizationMode === "V0" && (
          <SelectField
            label={t.priority}
            value={form.priority}
            choices={t.priorities.map((label, value) => ({ value: String(value), label }))}
            onText={(priority) => change({ priority })}
          />
        )}
        <h3>{t.overrides}</h3>
        <div className="columns">
          <TextField
            label={t.entryPoint}
            value={form.entryPoint}
            placeholder="python train.py"
            onText={(entryPoint) => change({ entryPoint })}
          />
          <TextField label={t.args} value={form.args} placeholder="--epochs 10" onText={(args) => change({ args })} />
        </div>
        <div className="field">
          <span className="label">{t.runConfig}</span>
          <Editor label={t.runConfig} value={form.runConfig} onChange={(runConfig) => change({ runConfig })} />
          <p className={runConfig ? "hint" : "error"}>{runConfig ? t.runConfigHint : t.unreadable}</p>
        </div>
        {config && (
          <ResourceConfig
            queue={queue as QueueRow}
            text={form.resourceConfig}
            isReadable={form.resourceConfig === null || resourceConfig !== null}
            onText={(text) => change({ resourceConfig: text })}
          />
        )}
        <Problem error={push.error} />
      </form>
    </Drawer>
  );
}

function What({ entity, form, change }: { entity: string; form: Form; change: (changes: Partial<Form>) => void }) {
  const t = useText();
  const projects = projectsOf(useAsk(Projects, { entity }).data);
  const jobs = useAsk(Jobs, { entity, project: form.project }, { enabled: form.what === "job" && form.project !== "" });
  const names = (jobs.data?.project?.artifactType?.artifactCollections?.edges ?? []).flatMap(({ node }) =>
    node ? [`${entity}/${form.project}/${node.name}:latest`] : [],
  );
  const choices = [...new Set([form.job, ...names])].filter(Boolean);
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
        <SelectField
          label={t.job}
          value={form.job}
          hint={choices.length === 0 ? t.noJobsHere : undefined}
          choices={[{ value: "", label: t.choose }, ...choices.map((value) => ({ value, label: value }))]}
          onText={(job) => change({ job })}
        />
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

/** One template variable. What its limits do not allow is marked at once; the server has the last word. */
function Value({
  name,
  description,
  schema,
  text,
  onText,
}: {
  name: string;
  description: string | null;
  schema: Schema;
  text: string | undefined;
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
    return <SelectField label={name} hint={hint} value={shown} choices={choices} onText={onText} />;
  }
  const number = Number(shown);
  const isWrong =
    schema.type !== "string" &&
    shown !== "" &&
    (!Number.isFinite(number) ||
      (schema.type === "integer" && !Number.isInteger(number)) ||
      number < (schema.minimum ?? number) ||
      number > (schema.maximum ?? number));
  return (
    <TextField
      label={name}
      hint={hint}
      error={isWrong ? t.notAllowed : undefined}
      inputMode={schema.type === "string" ? "text" : "decimal"}
      value={shown}
      placeholder={placeholder}
      onText={onText}
    />
  );
}

/** Where the queue fixes its template, others may only set its variables; elsewhere the whole config can be edited. */
function ResourceConfig({
  queue,
  text,
  isReadable,
  onText,
}: {
  queue: QueueRow;
  text: string | null;
  isReadable: boolean;
  onText: (text: string | null) => void;
}) {
  const t = useText();
  const own = useMemo(() => toText(innerConfig(queue.defaultResourceConfig)), [queue]);
  const isTemplate = (queue.defaultResourceConfig?.templateVariables.length ?? 0) > 0;
  return (
    <details open={text !== null}>
      <summary>{t.resourceConfig}</summary>
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
