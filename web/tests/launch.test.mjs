// The launch drawer in a real browser: from a job with inputs, from a run, and by keyboard alone.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { makeJob, makeQueue, push, startAgent, startRun, takeJob } from "./data.mjs";
import { close, heading, isSeen, launch, open, row, Server, signIn, startBrowser, write } from "./support.mjs";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.end();
});

const GPUS = { gpus: { schema: { type: "integer", minimum: 1, maximum: 4, default: 1 }, description: "GPUs of one node" } };
const POD = {
  spec: {
    template: {
      spec: { containers: [{ image: "${image_uri}", resources: { limits: { "nvidia.com/gpu": "{{gpus}}" } } }] },
    },
  },
};

const specs = async (queue) => {
  const query = `{ project(entityName: "alice", name: "model-registry") { runQueue(name: "${queue}") { runQueueItems(first: 9) { edges { node { runSpec templateVariableValues priority } } } } } }`;
  return (await server.graphql(query)).project.runQueue.runQueueItems.edges.map(({ node }) => node);
};

test("a job's inputs are a form; it and the text are the same, and the server judges both", async () => {
  await makeQueue(server, { name: "jobs", config: POD, variables: GPUS });
  await startRun(server, { run: "maker" });
  const inputs = {
    type: "object",
    properties: {
      epochs: { type: "integer", minimum: 1, maximum: 100, required: true, title: "Epochs", description: "Passes over the data" },
      optimizer: { type: "string", enum: ["adam", "sgd"] },
      augment: { type: "boolean" },
      data: { type: "object", properties: { path: { type: "string" } } },
      sizes: { type: "array", items: { type: "integer", enum: [128, 256] } },
    },
  };
  await makeJob(server, { run: "maker", name: "train", image: "ghcr.io/team/train:3", inputs });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/alice/mnist/jobs");
  await page.getByRole("button", { name: "Launch train" }).click();
  const drawer = page.getByRole("dialog");
  await drawer.getByLabel("Epochs").fill("500");
  await drawer.getByText("The queue does not allow this value").waitFor();
  await drawer.getByRole("button", { name: "Launch now" }).click();
  const refusal = drawer.getByRole("alert");
  await refusal.getByText("input `epochs` must be at most 100").waitFor();
  assert.ok(await isSeen(refusal), "a refusal is where one looks who has just submitted");
  await drawer.getByLabel("Epochs").fill("9");
  await drawer.getByLabel("optimizer").selectOption("sgd");
  await drawer.getByLabel("augment").selectOption("true");
  await drawer.getByLabel("path").fill("/data");
  await drawer.getByLabel("256").check();
  await drawer.getByRole("textbox", { name: "Run config" }).getByText("optimizer: sgd").waitFor();
  await write(page, "Run config", "epochs: 12\noptimizer: sgd\naugment: true\ndata:\n  path: /data\nsizes:\n  - 256\n");
  await page.waitForFunction((input) => input.value === "12", await drawer.getByLabel("Epochs").elementHandle());
  await drawer.getByLabel("gpus").fill("2");
  await drawer.getByRole("textbox", { name: "What would be submitted" }).getByText("ghcr.io/team/train:3").first().waitFor();
  await drawer.getByRole("button", { name: "Launch now" }).click();
  await row(page, "train:latest").waitFor();
  const [{ runSpec, templateVariableValues }] = await specs("jobs");
  assert.deepEqual(runSpec.overrides.run_config, {
    epochs: 12,
    optimizer: "sgd",
    augment: true,
    data: { path: "/data" },
    sizes: [256],
  });
  assert.deepEqual(templateVariableValues, { gpus: 2 });
  await close(page);
});

test("what was changed for one launch is there again for the next", async () => {
  await makeQueue(server, { name: "wide", config: { kind: "Job", spec: { parallelism: 1 } } });
  await startAgent(server, { queue: "wide" });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/wide");
  await launch(page, { image: "train:1" });
  await page.getByText("Resource config", { exact: true }).click();
  await write(page, "Resource config", "kind: Job\nspec:\n  parallelism: 4\n");
  await page.getByRole("textbox", { name: "What would be submitted" }).getByText("parallelism: 4").waitFor();
  await page.getByRole("button", { name: "Launch now" }).click();
  await row(page, "train:1").getByRole("button", { name: "Launch train:1 again" }).click();
  await page.getByRole("dialog").getByRole("textbox", { name: "Resource config" }).getByText("parallelism: 4").waitFor();
  await page.getByLabel("Run name").fill("again");
  await page.getByRole("button", { name: "Launch now" }).click();
  await row(page, "again").waitFor();
  assert.deepEqual(
    (await specs("wide")).map(({ runSpec }) => runSpec.resource_args.kubernetes.spec.parallelism),
    [4, 4],
  );
  await close(page);
});

test("the preview says what keeps a launch from being submitted", async () => {
  const variables = { gpus: { schema: { type: "integer", minimum: 1, maximum: 4 } } };
  await makeQueue(server, { name: "strict", config: POD, variables });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/strict");
  await launch(page, { image: "train:2" });
  const shown = page.getByRole("region", { name: "What would be submitted" });
  await shown.getByText("`gpus` has no default and needs a value").waitFor();
  await page.getByLabel("gpus").fill("3");
  await shown.getByText("nvidia.com/gpu: 3").waitFor();
  await close(page);
});

test("a launch is made by keyboard alone, from the menu to the run that is launched again", async () => {
  await makeQueue(server, { name: "keys", config: POD, variables: GPUS, mode: "V0" });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/");
  await heading(page, "alice").waitFor();
  const focused = () =>
    page.evaluate(() => {
      let at = document.activeElement;
      while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
      const label = at?.id && document.querySelector(`label[for="${at.id}"]`)?.textContent;
      return (at?.getAttribute("aria-label") || label || at?.textContent || "").trim();
    });
  const tabTo = async (name, key = "Tab") => {
    for (let presses = 0; presses < 80; presses++) {
      await page.keyboard.press(key);
      const at = await focused();
      if (typeof name === "string" ? at === name : name.test(at)) return;
    }
    assert.fail(`${name} cannot be reached by ${key}`);
  };
  await tabTo("Queues");
  await page.keyboard.press("Enter");
  await heading(page, "Launch").waitFor();
  await tabTo(/^keys/);
  await page.keyboard.press("Enter");
  await heading(page, "keys").waitFor();
  await tabTo("Launch");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Launch now" }).waitFor();
  assert.equal(await focused(), "Image");
  await page.keyboard.type("train:8");
  await tabTo("Project");
  await page.keyboard.type("mnist");
  await tabTo("gpus");
  await page.keyboard.type("3");
  await tabTo("Priority");
  await page.keyboard.press("ArrowUp");
  await tabTo("Arguments");
  await page.keyboard.type("--fast");
  await tabTo("Run config");
  await page.keyboard.type("lr: 0.1");
  // The editor lets go of Tab.
  await tabTo("Launch now");
  await page.keyboard.press("Enter");
  await row(page, "train:8").waitFor();
  await tabTo("Launch train:8 again");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Launch now" }).waitFor();
  assert.equal(await page.getByLabel("gpus").inputValue(), "3");
  await tabTo("Launch now");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await row(page, "train:8").nth(1).waitFor();
  const made = await specs("keys");
  assert.deepEqual(
    made.map(({ runSpec, templateVariableValues, priority }) => [
      runSpec.overrides.args,
      runSpec.overrides.run_config,
      templateVariableValues.gpus,
      priority,
    ]),
    [
      [["--fast"], { lr: 0.1 }, 3, 1],
      [["--fast"], { lr: 0.1 }, 3, 1],
    ],
  );
  await page.keyboard.press("Escape");
  await close(page);
});

test("what may not be launched into is shown and not offered", async () => {
  await server.send("POST", "/api/v1/teams", { name: "vision" });
  await makeQueue(server, { entity: "vision", name: "shared", config: {} });
  await push(server, { entity: "vision", queue: "shared", spec: { name: "theirs", docker: { docker_image: "x" } } });
  const { key } = await server.send("POST", "/api/v1/users", { username: "vera" });
  await server.send("PUT", "/api/v1/teams/vision/members/vera", { role: "viewer" });
  const page = await open(browser, server);
  await signIn(page, server, key, "/launch/vision/shared");
  await row(page, "theirs").waitFor();
  assert.equal(await page.getByRole("button", { name: "Launch", exact: true }).count(), 0);
  assert.equal(await page.getByRole("button", { name: /Remove|Delete|Launch theirs/ }).count(), 0);
  await page.getByRole("link", { name: "Config" }).click();
  await page.getByRole("textbox", { name: "Configuration" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Edit config" }).count(), 0);
  await close(page);
});

test("a launch from a job is filled with what its newest run was launched with", async () => {
  await makeQueue(server, { name: "jobs-again", config: POD, variables: GPUS });
  await startRun(server, { run: "maker2" });
  const job = await makeJob(server, { run: "maker2", name: "prefilled", image: "ghcr.io/team/train:4" });
  const agent = await startAgent(server, { queue: "jobs-again" });
  for (const [run, gpus] of [
    ["older", 1],
    ["newer", 3],
  ]) {
    const spec = { job: "alice/mnist/prefilled:v0", overrides: { args: ["--note", `it's ${run}`] } };
    await push(server, { queue: "jobs-again", spec, values: { gpus } });
    await agent.take(run, { lr: gpus / 10 });
    await takeJob(server, { run, job });
  }
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/alice/mnist/jobs/prefilled");
  await page.getByRole("button", { name: "Launch", exact: true }).click();
  const drawer = page.getByRole("dialog");
  assert.equal(await drawer.getByLabel("gpus").inputValue(), "3");
  assert.equal(await drawer.getByLabel("Queue", { exact: true }).inputValue(), "jobs-again");
  assert.equal(await drawer.getByLabel("Run name").inputValue(), "");
  // Nothing of the config was overridden: it is the run's own.
  await drawer.getByRole("textbox", { name: "Run config" }).getByText("lr: 0.3").waitFor();
  await drawer.getByLabel("Run name").fill("from-job");
  await drawer.getByRole("button", { name: "Launch now" }).click();
  await row(page, "from-job").waitFor();
  const made = (await specs("jobs-again")).find(({ runSpec }) => runSpec.name === "from-job");
  assert.deepEqual(made.runSpec.overrides, { args: ["--note", "it's newer"], run_config: { lr: 0.3 } });
  // The drawer is no place to come back to.
  await page.goBack();
  await heading(page, "prefilled").waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0);
  await close(page);
});

test("what was half typed for one project is not there in another, and a queue that is gone is not chosen", async () => {
  await makeQueue(server, { name: "a-first", config: {} });
  await makeQueue(server, { name: "short-lived", config: {} });
  for (const project of ["mnist", "cifar"]) await startRun(server, { run: `seed-${project}`, project });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/alice/mnist?open=launch");
  await page.getByRole("textbox", { name: "Image" }).fill("half-typed:1");
  await page.getByLabel("Queue", { exact: true }).selectOption("short-lived");
  await page.goto(`${server.url}/alice/cifar?open=launch`);
  assert.equal(await page.getByRole("textbox", { name: "Image" }).inputValue(), "");
  assert.equal(await page.getByLabel("Project", { exact: true }).inputValue(), "cifar");
  const found = await server.graphql(
    '{ project(entityName: "alice", name: "model-registry") { runQueue(name: "short-lived") { id } } }',
  );
  await server.graphql("mutation($ids: [ID!]!) { deleteRunQueues(input: { queueIDs: $ids }) { success } }", {
    ids: [found.project.runQueue.id],
  });
  await page.goto(`${server.url}/alice/mnist?open=launch`);
  assert.equal(await page.getByRole("textbox", { name: "Image" }).inputValue(), "half-typed:1");
  const chosen = await page.getByLabel("Queue", { exact: true }).inputValue();
  assert.ok(chosen && chosen !== "short-lived", chosen);
  await write(page, "Run config", "lr: [");
  await page.getByRole("button", { name: "Launch now" }).click();
  await page.getByRole("alert").getByText("Run config: This cannot be read").waitFor();
  await write(page, "Run config", "lr: 1");
  await page.getByRole("alert").waitFor({ state: "detached" });
  await close(page);
});
