/** What a launch is made of: how the form is filled at first, and what of it is sent. */
import { ask, Refusal, send } from "../api/client";
import { JobRuns, Projects, type PushToRunQueueInput, type QueueRow, Run } from "../api/generated";
import type { Where } from "../api/story";
import { toObject, toText } from "../documents";
import { joined, words } from "../words";
import { imageOf, type Spec, schemaOf, typed } from "./queue_data";
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

/** What a form is kept by: one that is half filled in for a project does not appear in another. */
export const draftName = (entity: string, project: string | null, from: From): string =>
  ["launch", entity, project ?? "", from.queue, from.item, from.job, from.run].map((part) => part ?? "").join(".");

/** The named queue. One that is gone, or another team's, is none: then the first that one may launch into. */
export const queueOf = <Row extends { name: string; maySubmit: boolean }>(queues: Row[], name: string): Row | undefined =>
  queues.find((queue) => queue.name === name) ?? queues.find(({ maySubmit }) => maySubmit);

/** What the form begins with. */
export async function fill(entity: string, project: string | null, from: From): Promise<LaunchForm> {
  const projects = project ? [] : projectsOf(await ask(Projects, { entity }));
  const form = { ...EMPTY, project: project ?? projects[0]?.name ?? "", queue: from.queue ?? "" };
  if (from.job) {
    const run = await newestRunOf(from.job);
    const filled = run ? await fillByRun(form, run) : form;
    return { ...filled, what: "job", job: from.job, image: "", name: "", project: form.project };
  }
  if (from.run && project) return fillByRun(form, { entity, project, run: from.run });
  return from.item ? fillByItem(form, from.item) : form;
}

async function fillByRun(form: LaunchForm, where: Where): Promise<LaunchForm> {
  const run = (await ask(Run, where)).project?.run;
  const filled = { ...form, runConfig: configText(plainConfig(run?.config)) };
  const job = run?.inputArtifacts?.edges.find(({ node }) => node?.artifactType.name === "job")?.node;
  if (job) {
    const { name, project } = job.artifactSequence;
    Object.assign(filled, { what: "job", job: `${project?.entityName}/${project?.name}/${name}:v${job.versionIndex}` });
  }
  const item = traceOf(run?.config)?.item ?? (await itemOfRun(`${where.entity}/${where.project}/${where.run}`));
  return item ? fillByItem(filled, item) : filled;
}

async function fillByItem(form: LaunchForm, id: string): Promise<LaunchForm> {
  const item = await itemOf(id);
  return item ? { ...form, ...launched(item, form) } : form;
}

/** The newest run of `entity/project/name`, a job with or without a version. */
async function newestRunOf(reference: string): Promise<Where | null> {
  const [entity = "", project = "", name = ""] = reference.split("/");
  const found = (await ask(JobRuns, { entity, project, job: name.split(":")[0] ?? "" })).project;
  const versions = found?.artifactType?.artifactCollection?.artifacts?.edges ?? [];
  const runs = versions.flatMap(({ node }) => node.usedBy?.edges ?? []).map(({ node }) => node);
  // They come oldest first; of two that began in the same second the later one counts.
  runs.reverse().sort((one, other) => Date.parse(other.createdAt) - Date.parse(one.createdAt));
  const [run] = runs;
  return run?.project ? { entity: run.project.entityName, project: run.project.name, run: run.name } : null;
}

/** What the server tells of an item; `spec` is as it was pushed, without what the queue added. */
type Told = { queue: string; spec: Spec | null; values: Record<string, unknown> | null; priority: number | null };

async function itemOf(id: string): Promise<Told | null> {
  try {
    return (await send("GET", `/api/v1/items/${encodeURIComponent(id)}`)) as Told;
  } catch (error) {
    // It was removed, or its queue was: what is known of the run is all there is.
    if (error instanceof Refusal) return null;
    throw error;
  }
}

async function itemOfRun(run: string): Promise<string | null> {
  const items = (await send("GET", `/api/v1/items?all=true&limit=1&run=${encodeURIComponent(run)}`)) as { id: string }[];
  return items[0]?.id ?? null;
}

/** What the item was launched with; of the run config, what the form has already where nothing was overridden. */
export function launched({ queue, spec: own, values, priority }: Told, form: LaunchForm): Partial<LaunchForm> {
  const spec = own ?? {};
  const args = spec.resource_args && Object.values(spec.resource_args)[0];
  return {
    queue,
    what: spec.job ? "job" : "image",
    job: spec.job ?? "",
    image: imageOf(spec),
    name: spec.name ?? "",
    project: spec.project ?? form.project,
    entryPoint: joined(spec.overrides?.entry_point ?? []),
    args: joined(spec.overrides?.args ?? []),
    runConfig: configText(spec.overrides?.run_config ?? {}) || form.runConfig,
    resourceConfig: args ? toText(args) : null,
    values: Object.fromEntries(Object.entries(values ?? {}).map(([name, value]) => [name, String(value)])),
    priority: String(priority ?? 2),
  };
}

const configText = (config: Record<string, unknown>): string => (Object.keys(config).length > 0 ? toText(config) : "");

/** A launch as it is sent, and as the preview asks for it. */
export type Launch = { spec: object; values: Record<string, unknown>; priority: number | null };

/** The text of the form that cannot be read, if there is one. */
export function unreadableIn(form: Pick<LaunchForm, "runConfig" | "resourceConfig">): "runConfig" | "resourceConfig" | null {
  if (!toObject(form.runConfig)) return "runConfig";
  return form.resourceConfig !== null && !toObject(form.resourceConfig) ? "resourceConfig" : null;
}

/** Null while a text in the form cannot be read. */
export function launchOf(entity: string, form: LaunchForm, queue: QueueRow): Launch | null {
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
  const priority = queue.prioritizationMode === "V0" ? Number(form.priority) : null;
  return { spec, values: Object.fromEntries(values), priority };
}

export const inputOf = ({ spec, values, priority }: Launch, queue: QueueRow): PushToRunQueueInput => ({
  queueID: queue.id,
  runSpec: JSON.stringify(spec),
  templateVariableValues: JSON.stringify(values),
  ...(priority !== null && { priority }),
});

/** What is asked for while the form is being filled in; an image that is not chosen yet stands as a word. */
export function previewOf(entity: string, form: LaunchForm, queue: QueueRow): object | null {
  if (form.what === "job" && form.job === "") return null;
  const launch = launchOf(entity, { ...form, image: form.image || "image" }, queue);
  return launch && { entity, queue: queue.name, ...launch };
}
