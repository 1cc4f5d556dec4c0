// What the page shows in tests and screenshots, made as clients and agents make it: by the API.
import { createHash } from "node:crypto";

export const REGISTRY = "model-registry";

export const GPU_CONFIG = `spec:
  template:
    spec:
      containers:
        - image: \${image_uri}
          resources:
            limits:
              cpu: 4
              memory: 12Gi
              nvidia.com/gpu: '{{gpus}}'
      restartPolicy: Never
  backoffLimit: 0
`;

export async function makeQueue(server, { entity = "alice", name, config, variables = {}, mode = "DISABLED" }) {
  const input = {
    entityName: entity,
    projectName: REGISTRY,
    queueName: name,
    resourceType: "kubernetes",
    resourceConfig: JSON.stringify(config),
    templateVariables: JSON.stringify(variables),
    prioritizationMode: mode,
  };
  await server.graphql("mutation($input: UpsertRunQueueInput!) { upsertRunQueue(input: $input) { success } }", { input });
}

export async function push(server, { entity = "alice", queue, spec, values = {}, priority = null }) {
  const input = {
    entityName: entity,
    projectName: REGISTRY,
    queueName: queue,
    runSpec: JSON.stringify({ entity, project: "mnist", ...spec }),
    templateVariableValues: JSON.stringify(values),
    priority,
  };
  const made = await server.graphql(
    "mutation($input: PushToRunQueueByNameInput!) { pushToRunQueueByName(input: $input) { runQueueItemId } }",
    { input },
  );
  return made.pushToRunQueueByName.runQueueItemId;
}

/** An agent registers for a queue; `take` pops an item and starts a run for it, as W&B's agent does. */
export async function startAgent(server, { entity = "alice", queue }) {
  const found = await server.graphql(
    `query($entity: String!, $queue: String!) { project(entityName: $entity, name: "${REGISTRY}") { runQueue(name: $queue) { id } } }`,
    { entity, queue },
  );
  const input = {
    entityName: entity,
    projectName: REGISTRY,
    runQueues: [found.project.runQueue.id],
    hostname: "gpu-box-1",
    version: "0.23.1",
  };
  const made = await server.graphql(
    "mutation($input: CreateLaunchAgentInput!) { createLaunchAgent(input: $input) { launchAgentId } }",
    { input },
  );
  const launchAgentId = made.createLaunchAgent.launchAgentId;
  const take = async (run, config = {}) => {
    const where = { entityName: entity, projectName: REGISTRY, queueName: queue, launchAgentId };
    const popped = await server.graphql(
      "mutation($input: PopFromRunQueueInput!) { popFromRunQueue(input: $input) { runQueueItemId runSpec } }",
      { input: where },
    );
    const { runQueueItemId, runSpec } = popped.popFromRunQueue;
    await server.graphql("mutation($input: AckRunQueueItemInput!) { ackRunQueueItem(input: $input) { success } }", {
      input: { runQueueItemId, runName: run },
    });
    const launched = { launch_trace_id: runQueueItemId, launch_queue_name: queue, launch_queue_entity: entity };
    await startRun(server, { entity, project: runSpec.project, run, name: runSpec.name ?? run, config, launched });
    return runQueueItemId;
  };
  return { launchAgentId, take };
}

export async function startRun(
  server,
  { entity = "alice", project = "mnist", run, name = run, config = {}, launched = {}, tags = [] },
) {
  const wrapped = Object.fromEntries(Object.entries(config).map(([key, value]) => [key, { value }]));
  const input = {
    entityName: entity,
    modelName: project,
    name: run,
    displayName: name,
    host: "gpu-box-1",
    tags,
    jobProgram: "train.py",
    config: JSON.stringify({ ...wrapped, _wandb: { value: launched } }),
  };
  await server.graphql("mutation($input: UpsertBucketInput!) { upsertBucket(input: $input) { bucket { id } } }", { input });
}

/** What a client streams: rows of metrics, of the system, lines of output, the end. */
export async function stream(
  server,
  { entity = "alice", project = "mnist", run, history = [], system = [], logs = [], summary, exitcode, at = {} },
) {
  const lines = (rows) => rows.map((row) => JSON.stringify(row));
  const files = {};
  if (history.length) files["wandb-history.jsonl"] = { offset: at.history ?? 0, content: lines(history) };
  if (system.length) files["wandb-events.jsonl"] = { offset: at.system ?? 0, content: lines(system) };
  if (logs.length) files["output.log"] = { offset: at.logs ?? 0, content: logs };
  if (summary) files["wandb-summary.json"] = { offset: 0, content: [JSON.stringify(summary)] };
  const end = exitcode === undefined ? {} : { complete: true, exitcode };
  await server.send("POST", `/files/${entity}/${project}/${run}/file_stream`, { files, ...end });
}

/** Falling loss, rising accuracy, with a little noise that is the same every time. */
export function curve(steps, seed = 1, from = 0) {
  const noise = (step) => Math.sin(step * 12.9898 * seed) * 0.5;
  return Array.from({ length: steps }, (_, index) => {
    const step = from + index;
    const loss = 2.2 * Math.exp(-step / (60 + 10 * seed)) + 0.08 + 0.04 * noise(step);
    return {
      _step: step,
      _runtime: step * 1.5,
      _timestamp: 1_750_000_000 + step * 1.5,
      loss,
      accuracy: 1 - loss / 2.6,
      lr: 0.001 * 0.995 ** step,
      "grad/norm": 1 + Math.abs(noise(step * 3)),
    };
  });
}

export const systemRows = (count) =>
  Array.from({ length: count }, (_, index) => ({
    _runtime: index * 15,
    _timestamp: 1_750_000_000 + index * 15,
    "system.cpu": 40 + 20 * Math.sin(index / 3),
    "system.memory_percent": 52 + index * 0.2,
    "system.gpu.0.gpu": 88 + 8 * Math.sin(index / 2),
    "system.gpu.1.gpu": 82 + 9 * Math.cos(index / 2),
    "system.gpu.0.memoryAllocated": 61 + 2 * Math.sin(index),
    "system.gpu.1.memoryAllocated": 58 + 2 * Math.cos(index),
  }));

const md5 = (text, encoding) => createHash("md5").update(text).digest(encoding);

/** A job made of an image, as `wandb job create image` makes it: an artifact with the file that describes it. Gives its id. */
export async function makeJob(server, { entity = "alice", project = "mnist", run, name, image, inputs = null }) {
  const where = { entityName: entity, projectName: project };
  const file = JSON.stringify({
    _version: "v0",
    source_type: "image",
    source: { image },
    input_types: {},
    output_types: {},
    runtime: "3.11",
  });
  const kind = { ...where, name: "job" };
  await server.graphql(
    "mutation($input: CreateArtifactTypeInput!) { createArtifactType(input: $input) { artifactType { id } } }",
    { input: kind },
  );
  const input = {
    ...where,
    artifactTypeName: "job",
    artifactCollectionNames: [name],
    runName: run,
    digest: md5(file, "hex"),
    digestAlgorithm: "MANIFEST_MD5",
    aliases: [{ artifactCollectionName: name, alias: "latest" }],
    ...(inputs && { metadata: JSON.stringify({ input_schemas: { "@wandb.config": inputs } }) }),
  };
  const made = await server.graphql(
    "mutation($input: CreateArtifactInput!) { createArtifact(input: $input) { artifact { id } } }",
    { input },
  );
  const artifactID = made.createArtifact.artifact.id;
  const manifest = JSON.stringify({
    version: 1,
    storagePolicy: "wandb-storage-policy-v1",
    storagePolicyConfig: { storageLayout: "V2" },
    contents: { "wandb-job.json": { digest: md5(file, "base64"), size: file.length, birthArtifactID: artifactID } },
  });
  const listed = {
    ...where,
    artifactID,
    runName: run,
    name: "wandb_manifest.json",
    digest: md5(manifest, "base64"),
    type: "FULL",
  };
  const kept = await server.graphql(
    "mutation($input: CreateArtifactManifestInput!) { createArtifactManifest(input: $input) { artifactManifest { id file { uploadUrl } } } }",
    { input: listed },
  );
  const { id: artifactManifestID, file: manifestFile } = kept.createArtifactManifest.artifactManifest;
  const wanted = {
    artifactFiles: [{ artifactID, artifactManifestID, name: "wandb-job.json", md5: md5(file, "base64") }],
    storageLayout: "V2",
  };
  const files = await server.graphql(
    "mutation($input: CreateArtifactFilesInput!) { createArtifactFiles(input: $input) { files { edges { node { uploadUrl } } } } }",
    { input: wanted },
  );
  const { uploadUrl } = files.createArtifactFiles.files.edges[0].node;
  for (const [url, body] of [
    [uploadUrl, file],
    [manifestFile.uploadUrl, manifest],
  ])
    if (url) await fetch(url, { method: "PUT", body });
  await server.graphql("mutation($input: CommitArtifactInput!) { commitArtifact(input: $input) { artifact { id } } }", {
    input: { artifactID },
  });
  return artifactID;
}

/** A run says that it came from a job. */
export async function takeJob(server, { entity = "alice", project = "mnist", run, job }) {
  const input = { artifactID: job, entityName: entity, projectName: project, runName: run };
  await server.graphql("mutation($input: UseArtifactInput!) { useArtifact(input: $input) { artifact { id } } }", { input });
}

/** An agent of ours: it takes items, says where they run and why they wait, and tells of its cluster. */
export async function startOurAgent(server, { entity = "alice", queue, key = server.key }) {
  const found = await server.graphql(
    `query($entity: String!, $queue: String!) { project(entityName: $entity, name: "${REGISTRY}") { runQueue(name: $queue) { id } } }`,
    { entity, queue },
    key,
  );
  const input = { entityName: entity, projectName: REGISTRY, runQueues: [found.project.runQueue.id], hostname: "gpu-box-1" };
  const made = await server.graphql(
    "mutation($input: CreateLaunchAgentInput!) { createLaunchAgent(input: $input) { launchAgentId } }",
    { input },
    key,
  );
  const agent = made.createLaunchAgent.launchAgentId;
  const path = (...parts) => `/api/v1/${parts.map(encodeURIComponent).join("/")}`;
  const answer = (lease, deed, body) => server.send("POST", path("items", lease, deed), body, key);
  return {
    agent,
    take: async () => (await server.send("POST", path("agents", agent, "take"), { queue, limit: 1 }, key))[0],
    start: (lease, run, project = "mnist") => answer(lease, "acknowledge", { run: { project, name: run }, agent }),
    note: (lease, note) => answer(lease, "note", note),
    end: (lease, end) => answer(lease, "end", end),
    tellCluster: (picture, cluster = "c1") => server.send("PUT", path("agents", agent, "cluster"), { cluster, picture }, key),
  };
}

/** A GPU's id: as odd as real ones, and the same every time. */
const deviceOf = (number) => `GPU-${(((number + 1) * 2_654_435_761) >>> 0).toString(16).padStart(8, "0")}-20c8-ecc5-ce98`;

/** Where the ranks of a gang are, as an agent notes it: two GPUs each, four ranks to a node. */
export const seats = (ranks, phase = "Running") =>
  Array.from({ length: ranks }, (_, rank) => ({
    rank,
    role: rank === 0 ? "master" : "worker",
    label: rank === 0 ? "master-0" : `worker-${rank - 1}`,
    pod: `llama-x7k2-${rank === 0 ? "master-0" : `worker-${rank - 1}`}`,
    node: phase === "Pending" ? null : `gpu-node-${Math.floor(rank / 4) + 1}`,
    phase,
    gpus: 2,
    devices: phase === "Pending" ? [] : [0, 1].map((gpu) => deviceOf(rank * 2 + gpu)),
  }));

/** A cluster of some nodes with eight GPUs each; `holders` have the item's key and how many GPUs of which node. */
export function pictureOf({ nodes = 2, holders = [], waiting = [], events = [], usage = null }) {
  const draw = (number) => {
    const own = holders.filter(({ node }) => node === number);
    const gpus = Array.from({ length: 8 }, (_, gpu) => ({
      id: deviceOf(number * 8 + gpu),
      held_by: [],
      utilisation_percent: usage === null ? null : Math.round(usage * (60 + 5 * gpu)),
      memory_used_mib: usage === null ? null : Math.round(usage * (40_000 + 9000 * gpu)),
      memory_total_mib: usage === null ? null : 143_771,
      is_healthy: true,
    }));
    let next = 0;
    for (const [index, { gpus: count }] of own.entries())
      for (let taken = 0; taken < count && next < gpus.length; taken++) gpus[next++].held_by.push(index);
    return {
      name: `gpu-node-${number + 1}`,
      state: "ready",
      product: "NVIDIA-H200",
      is_pretended: false,
      gpus,
      cpu: { held: own.length * 16_000, total: 192_000 },
      memory: { held: own.length * 128 * 2 ** 30, total: 2048 * 2 ** 30 },
      pods: own.map(({ item, pod, gpus: count }) => ({ namespace: "ml", pod, item, gpus: count })),
    };
  };
  return { nodes: Array.from({ length: nodes }, (_, number) => draw(number)), nodes_total: nodes, waiting, events };
}
