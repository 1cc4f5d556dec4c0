// `make screenshots`: every page and drawer, in light and dark, on a desktop and on a phone, into screenshots.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { curve, makeJob, makeQueue, push, startAgent, startRun, stream, systemRows } from "./data.mjs";
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
  ["run", "/alice/mnist/runs/run4", "figcaption output"],
  ["run-charts", "/alice/mnist/runs/run4/charts", "figcaption output"],
  ["run-logs", "/alice/mnist/runs/run1/logs", ".pinned"],
  ["run-system", "/alice/mnist/runs/run4/system", "figcaption output"],
  ["run-config", "/alice/mnist/runs/run4/config", ".editor"],
  ["run-files", "/alice/mnist/runs/run4/files", "text=No files"],
  ["settings", "/settings", "text=first"],
];

const LOOKS = {
  "desktop-light": { colorScheme: "light" },
  "desktop-dark": { colorScheme: "dark" },
  "phone-light": { colorScheme: "light", viewport: { width: 390, height: 844 }, hasTouch: true },
  "phone-dark": { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true },
};

export async function take(page, base, [name, path, sign], look) {
  await page.goto(base + path);
  await page
    .locator(sign)
    .first()
    .waitFor({ timeout: 8000 })
    .catch((e) => console.log(name, e.message)); // takeAnyway
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
