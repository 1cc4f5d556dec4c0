/** What a launch is made of: how the form is filled at first, and what of it is sent. */
import { ask } from "../api/client";
import { Projects, type PushToRunQueueInput, QueueItem, type QueueRow, Run } from "../api/generated";
import { toObject, toText } from "../documents";
import { imageOf, REGISTRY, type Spec, schemaOf, typed } from "./queue_data";
import { plainConfig, traceOf } from "./run_data";
import { projectsOf } from "./sidebar";

/** What the drawer was opened from. */
export type From = { queue: string | null; item: string | null; job: string | null; run: string | null };

export type LaunchForm = {
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

const EMPTY: LaunchForm = {
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
export async function fill(entity: string, project: string | null, from: From): Promise<LaunchForm> {
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
const words = (text: string): string[] =>
  [...text.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, bare]) => double?.replace(/\\(.)/g, "$1") ?? single ?? bare ?? "",
  );
const joined = (list: string[]): string => list.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word}'`)).join(" ");

/** What is sent, or null while a text in the form cannot be read. */
export function inputOf(entity: string, form: LaunchForm, queue: QueueRow): PushToRunQueueInput | null {
  const config = queue.defaultResourceConfig;
  const runConfig = toObject(form.runConfig);
  const resourceConfig = form.resourceConfig === null ? {} : toObject(form.resourceConfig);
  if (!runConfig || !resourceConfig) return null;
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
    ...(form.resourceConfig !== null &&
      config && { resource: config.resource, resource_args: { [config.resource]: resourceConfig } }),
  };
  const values = (config?.templateVariables ?? []).flatMap((variable) => {
    const text = form.values[variable.name] ?? "";
    return text === "" ? [] : [[variable.name, typed(text, schemaOf(variable))]];
  });
  return {
    queueID: queue.id,
    runSpec: JSON.stringify(spec),
    templateVariableValues: JSON.stringify(Object.fromEntries(values)),
    ...(queue.prioritizationMode === "V0" && { priority: Number(form.priority) }),
  };
}
