// `make screenshots`: every page and drawer, in light and dark, on a desktop and on a phone, into screenshots.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import {
  curve,
  makeJob,
  makeQueue,
  pictureOf,
  push,
  seats,
  startAgent,
  startOurAgent,
  startRun,
  stream,
  systemRows,
} from "./data.mjs";
import { enter, open, Server, startBrowser } from "./support.mjs";

const out = join(import.meta.dirname, "../screenshots");
const config = (container) => ({
  spec: {
    template: { spec: { containers: [{ image: "${image_uri}", ...container }], restartPolicy: "Never" } },
    backoffLimit: 0,
  },
});

/** A small team's week: some runs, one of them failed, one live; a queue that is served and one that is not. */
export async function fill(server) {
  await server.send("POST", "/api/v1/teams", { name: "vision" });
  const gpus = { gpus: { schema: { type: "integer", minimum: 1, maximum: 4, default: 1 }, description: "GPUs of one node" } };
  await makeQueue(server, {
    name: "gpu",
    config: config({ resources: { limits: { cpu: 4, memory: "12Gi", "nvidia.com/gpu": "{{gpus}}" } } }),
    variables: gpus,
    mode: "V0",
  });
  await makeQueue(server, {
    name: "volcano",
    config: { apiVersion: "batch.volcano.sh/v1alpha1", kind: "Job", spec: { minAvailable: 2, tasks: [] } },
  });
  await makeQueue(server, { name: "nightly", config: config({}) });
  const agent = await startAgent(server, { queue: "gpu" });
  const names = ["resnet50-baseline", "resnet50-warmup", "vit-small", "vit-small-aug", "convnext-tiny"];
  for (const [index, name] of names.entries()) {
    await push(server, {
      queue: "gpu",
      spec: {
        name,
        docker: { docker_image: `ghcr.io/vision/train:${index + 3}` },
        overrides: { args: ["--epochs", "10"], run_config: { lr: 0.001 } },
      },
      values: { gpus: (index % 4) + 1 },
      priority: index % 4,
    });
    const run = `run${index}`;
    await agent.take(run, { lr: 0.001 * (index + 1), batch_size: 64 << index, optimizer: "adamw" });
    const steps = 220 + 40 * index;
    const rows = curve(steps, index + 1);
    const last = rows.at(-1);
    const logs = rows.flatMap((row, step) =>
      step % 10 === 0
        ? [`epoch ${Math.floor(step / 50)} step ${step} loss ${row.loss.toFixed(4)} accuracy ${row.accuracy.toFixed(3)}`]
        : [],
    );
    if (index === 1)
      logs.push(
        "Traceback (most recent call last):",
        '  File "train.py", line 88, in <module>',
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
      );
    const exitcode = [0, 1, 0, 0, undefined][index];
    await stream(server, {
      run,
      history: rows,
      system: systemRows(80),
      logs,
      summary: { loss: last.loss, accuracy: last.accuracy },
      exitcode,
    });
  }
  await startRun(server, { run: "sketch1", name: "sketch-on-laptop", config: { lr: 0.01 }, tags: ["draft"] });
  await stream(server, { run: "sketch1", history: curve(30, 6), summary: { loss: 0.9, accuracy: 0.61 }, exitcode: 0 });
  for (const name of ["vit-base", "vit-base-384"])
    await push(server, { queue: "gpu", spec: { name, docker: { docker_image: "ghcr.io/vision/train:9" } }, values: { gpus: 4 } });
  const stuck = await push(server, {
    queue: "volcano",
    spec: { name: "llama-pretrain", docker: { docker_image: "ghcr.io/vision/llm:2" } },
  });
  const warning = { runQueueItemId: stuck, message: "needs 8 nvidia.com/gpu together, 6 free", stage: "agent" };
  await server.graphql(
    "mutation($input: UpdateRunQueueItemWarningInput!) { updateRunQueueItemWarning(input: $input) { success } }",
    { input: warning },
  );
  await makeJob(server, { run: "run0", name: "job-vision_train", image: "ghcr.io/vision/train:3" });
  await fillCluster(server);
}

/** A gang that runs, one that waits for room, and the cluster on which they do. */
async function fillCluster(server) {
  await makeQueue(server, { name: "pretrain", config: { apiVersion: "batch.volcano.sh/v1alpha1", kind: "Job" } });
  const agent = await startOurAgent(server, { queue: "pretrain" });
  const begin = async (run, name) => {
    await push(server, { queue: "pretrain", spec: { name, docker: { docker_image: "ghcr.io/vision/llm:2" } } });
    const item = await agent.take();
    await agent.start(item.lease, run, "llm");
    return item;
  };
  const gang = await begin("gang", "llama-8b-pretrain");
  const manifest = {
    apiVersion: "batch.volcano.sh/v1alpha1",
    kind: "Job",
    metadata: { name: "llama-x7k2" },
    spec: { minAvailable: 8 },
  };
  await agent.note(gang.lease, {
    waiting: "needs 16 nvidia.com/gpu together, 12 free; run vit-large holds 4 until about 14:05",
    manifest,
  });
  await agent.note(gang.lease, { waiting: null, state: "running", place: seats(8) });
  const where = { run: "gang", project: "llm" };
  const rows = curve(400, 3);
  const ranks = seats(8).map(({ label }) => label);
  const logs = rows.slice(0, 160).map((row, step) => {
    const at = new Date(Date.now() - (160 - step) * 1000).toISOString().slice(0, 23);
    return `${at} [${ranks[step % 8]}] step ${Math.floor(step / 8)} loss ${row.loss.toFixed(4)} tokens/s ${41_000 + ((step * 37) % 900)}`;
  });
  await stream(server, { ...where, history: rows, system: systemRows(60), logs, summary: { loss: rows.at(-1).loss } });
  const vit = await begin("vit", "vit-large");
  await agent.note(vit.lease, { state: "running", place: seats(2) });
  const waits = await begin("mixtral", "mixtral-finetune");
  const reason = "needs 16 nvidia.com/gpu together, 10 free; run llama-8b-pretrain holds 16 until about 18:40";
  await agent.note(waits.lease, { waiting: reason, place: seats(8, "Pending") });
  const [own, other, third] = [gang, vit, waits].map(({ key }) => key);
  const minutesAgo = (minutes) => new Date(Date.now() - minutes * 60_000).toISOString();
  const event = (minutes, reason, about, message, isWarning = false) => ({
    at: minutesAgo(minutes),
    is_warning: isWarning,
    reason,
    namespace: "ml",
    about,
    message,
    item: null,
  });
  await agent.tellCluster(
    pictureOf({
      nodes: 4,
      usage: 0.95,
      holders: [
        { node: 0, gpus: 8, pod: "llama-x7k2-master-0", item: own },
        { node: 1, gpus: 8, pod: "llama-x7k2-worker-3", item: own },
        { node: 2, gpus: 4, pod: "vit-large-0", item: other },
        { node: 2, gpus: 2, pod: "notebook-hana", item: null },
      ],
      waiting: [{ namespace: "ml", name: "mixtral", item: third, pods: 8, gpus: 16, since: minutesAgo(12), reason }],
      events: [
        event(1, "FailedScheduling", "PodGroup mixtral", reason, true),
        event(6, "Started", "Pod llama-x7k2-worker-6", "Started container main"),
        event(7, "Scheduled", "Pod llama-x7k2-master-0", "Successfully assigned ml/llama-x7k2-master-0 to gpu-node-1"),
      ],
    }),
  );
}

/** The places, each with what must be there before it is taken. */
export const PLACES = [
  ["home", "/", ".card"],
  ["queues", "/launch", "text=volcano"],
  ["create-queue", "/launch?open=queue", ".editor"],
  ["queue", "/launch/alice/gpu", "text=vit-base-384"],
  ["queue-agents", "/launch/alice/volcano/agents", ".command"],
  ["queue-config", "/launch/alice/gpu/config", ".editor"],
  ["queue-edit", "/launch/alice/gpu/config?edit=", ".editor"],
  ["queue-monitor", "/launch/alice/gpu/monitor", ".tally"],
  ["launch", "/launch/alice/gpu?open=launch&queue=gpu", "text=Launch now"],
  ["runs", "/alice/mnist", "text=convnext-tiny"],
  ["jobs", "/alice/mnist/jobs", "text=job-vision_train"],
  ["job", "/alice/mnist/jobs/job-vision_train", "text=Made of"],
  ["compare", "/alice/mnist/compare?runs=run0,run2,run3", ".u-series:nth-child(3)"],
  ["run", "/alice/mnist/runs/run4", "figcaption .u-value"],
  ["run-charts", "/alice/mnist/runs/run4/charts", "figcaption .u-value"],
  ["run-logs", "/alice/mnist/runs/run1/logs", ".pinned"],
  ["run-system", "/alice/mnist/runs/run4/system", "figcaption .u-value"],
  ["run-config", "/alice/mnist/runs/run4/config", ".editor"],
  ["run-files", "/alice/mnist/runs/run4/files", "text=No files"],
  ["settings", "/settings", "text=first"],
  ["run-gang", "/alice/llm/runs/gang", ".seat"],
  ["run-gang-logs", "/alice/llm/runs/gang/logs", ".line-label"],
  ["run-waiting", "/alice/llm/runs/mixtral", ".seat"],
  ["cluster", "/cluster", ".gpu-cell"],
];

const LOOKS = {
  "desktop-light": { colorScheme: "light" },
  "desktop-dark": { colorScheme: "dark" },
  "phone-light": { colorScheme: "light", viewport: { width: 390, height: 844 }, hasTouch: true },
  "phone-dark": { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true },
};

export async function take(page, base, [name, path, sign], look) {
  await page.goto(base + path);
  await page.locator(sign).first().waitFor();
  await page.screenshot({ path: join(out, look, `${name}.png`) });
}

if (process.argv[1] === import.meta.filename) {
  const only = process.argv.slice(2);
  const server = await Server.start();
  const browser = await startBrowser();
  try {
    await fill(server);
    for (const [look, options] of Object.entries(LOOKS)) {
      mkdirSync(join(out, look), { recursive: true });
      const page = await open(browser, server, options);
      await page.goto(server.url);
      await page.locator("input[type=password]").waitFor();
      await page.screenshot({ path: join(out, look, "sign-in.png") });
      await enter(page, server);
      for (const place of PLACES) {
        if (only.length === 0 || only.includes(place[0])) await take(page, server.url, place, look);
      }
      await page.context().close();
    }
    console.log(`screenshots are in ${out}`);
  } finally {
    await browser.close();
    await server.end();
  }
}
