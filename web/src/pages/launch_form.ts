/** What a launch is made of: how the form is filled at first, and what of it is sent. */
import { ask, Refusal, send } from "../api/client";
import { Projects, type PushToRunQueueInput, type QueueRow, Run } from "../api/generated";
import { toObject, toText } from "../documents";
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

/** What the form begins with. */
export async function fill(entity: string, project: string | null, from: From): Promise<LaunchForm> {
  const projects = project ? [] : projectsOf(await ask(Projects, { entity }));
  const form = { ...EMPTY, project: project ?? projects[0]?.name ?? "", queue: from.queue ?? "" };
  if (from.job) return { ...form, what: "job", job: from.job };
  let item = from.item;
  if (from.run && project) {
    const run = (await ask(Run, { entity, project, run: from.run })).project?.run;
    form.runConfig = configText(plainConfig(run?.config));
    const job = run?.inputArtifacts?.edges.find(({ node }) => node?.artifactType.name === "job")?.node;
    if (job)
      Object.assign(form, {
        what: "job",
        job: `${job.artifactSequence.project?.entityName}/${job.artifactSequence.project?.name}/${job.artifactSequence.name}:v${job.versionIndex}`,
      });
    item = traceOf(run?.config)?.item ?? (await itemOfRun(`${entity}/${project}/${from.run}`));
  }
  const found = item && (await itemOf(item));
  return found ? { ...form, ...launched(found, form) } : form;
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

function launched({ queue, spec: own, values, priority }: Told, form: LaunchForm): Partial<LaunchForm> {
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
    runConfig: configText(spec.overrides?.run_config ?? {}),
    resourceConfig: args ? toText(args) : null,
    values: Object.fromEntries(Object.entries(values ?? {}).map(([name, value]) => [name, String(value)])),
    priority: String(priority ?? 2),
  };
}

const configText = (config: Record<string, unknown>): string => (Object.keys(config).length > 0 ? toText(config) : "");

/** Words as a shell would read them, and back. */
const words = (text: string): string[] =>
  [...text.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, bare]) => double?.replace(/\\(.)/g, "$1") ?? single ?? bare ?? "",
  );
const joined = (list: string[]): string => list.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word}'`)).join(" ");

/** A launch as it is sent, and as the preview asks for it. */
export type Launch = { spec: object; values: Record<string, unknown>; priority: number | null };

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
