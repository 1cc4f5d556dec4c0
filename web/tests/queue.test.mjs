// Queues in a real browser: making one with the checker's help, its line, its figures, its history.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { makeQueue, push, startAgent } from "./data.mjs";
import { close, heading, open, row, Server, signIn, startBrowser, write } from "./support.mjs";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.end();
});

const preview = (page) => page.getByRole("textbox", { name: "What would be submitted" });

test("each start is sound, and shows what it would submit", async () => {
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch?open=queue");
  for (const [name, sign, isChecked] of [
    ["GPU Job", "nvidia.com/gpu: 1", true],
    ["Volcano + PyTorch", "batch.volcano.sh/v1alpha1", true],
    ["PyTorchJob", "kind: PyTorchJob", true],
    ["Docker", "image", false],
    ["Process", "process", false],
    ["Kubernetes Job", "cpu: 1000m", true],
  ]) {
    await page.getByRole("radio", { name }).check();
    if (isChecked) await page.getByText("nothing wrong was found").waitFor();
    if (sign !== "process") await preview(page).getByText(sign).first().waitFor();
  }
  await close(page);
});

test("what is wrong is listed with its line, and mended by one click, alone or all at once", async () => {
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch?open=queue");
  const broken =
    "apiVersion: batch/v1\nkind: Job\nspec:\n  backOffLimit: 0\n  template:\n    spec:\n      containers:\n" +
    "        - name: train\n          image: ${image_uri}\n          resources:\n            limits:\n              nvidia.com/gpu: {{gpus}}\n";
  await write(page, "Configuration", broken);
  const found = page.getByRole("region", { name: "What was found in the configuration" });
  await found.getByText("G-12").waitFor();
  await page.getByRole("button", { name: "Fix G-12 in line 12" }).click();
  await page.getByText("1 template variable found").waitFor();
  await found.getByText("G-07").waitFor();
  await found.getByRole("button", { name: "Line 4" }).click();
  await page.getByRole("button", { name: "Fix all that is safe" }).click();
  await page.getByRole("textbox", { name: "Configuration" }).getByText("backoffLimit: 0").waitFor();
  await found.getByText("G-07").waitFor({ state: "detached" });
  await preview(page).getByText("nvidia.com/gpu").waitFor();
  await close(page);
});

test("those that wait are told their place, the reason and when they may start", async () => {
  await makeQueue(server, { name: "line", config: { spec: {} } });
  for (let number = 0; number < 6; number++)
    await push(server, { queue: "line", spec: { name: `job-${number}`, docker: { docker_image: "x" } } });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/line");
  await row(page, "job-0").getByText("no. 1 in line").waitFor();
  await row(page, "job-5").getByText("no. 6 in line").waitFor();
  await row(page, "job-0").getByText("no agent serves queue line").waitFor();
  const agent = await startAgent(server, { queue: "line" });
  await row(page, "job-0").getByText("it is the next of queue line").waitFor();
  await agent.take("line0");
  await agent.take("line1");
  await row(page, "job-0").getByText("Running").waitFor();
  await row(page, "job-2").getByText("no. 1 in line").waitFor();
  await row(page, "job-3")
    .getByText(/starts in ~/)
    .waitFor();
  // All of an item is one click away.
  await row(page, "job-5").getByRole("button", { name: "job-5", exact: true }).click();
  const drawer = page.getByRole("dialog");
  await drawer.getByText("Place in line").waitFor();
  await drawer.getByText("Launched with").first().waitFor();
  await drawer.getByRole("button", { name: "Close" }).click();
  await row(page, "job-5").getByRole("button", { name: "Remove job-5 from the queue" }).click();
  await row(page, "job-5").waitFor({ state: "detached" });
  await page.getByText("Ended", { exact: true }).click();
  await row(page, "job-2").waitFor({ state: "detached" });
  await close(page);
});

test("a queue's figures are by time and by person", async () => {
  const variables = { gpus: { schema: { type: "integer", minimum: 1, maximum: 4, default: 1 } } };
  const limits = { "nvidia.com/gpu": "{{gpus}}" };
  const config = { spec: { template: { spec: { containers: [{ resources: { limits } }] } } } };
  await makeQueue(server, { name: "figures", config, variables });
  const agent = await startAgent(server, { queue: "figures" });
  for (let number = 0; number < 3; number++)
    await push(server, { queue: "figures", spec: { name: `f-${number}`, docker: { docker_image: "x" } }, values: { gpus: 4 } });
  await agent.take("figures0");
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/figures/monitor");
  await page.getByRole("img", { name: /^Chart of Waiting and running over time/ }).waitFor();
  await page.getByRole("img", { name: /^Chart of GPUs held/ }).waitFor();
  await page.getByText("Half within").first().waitFor();
  const mine = page.getByRole("table", { name: "By author" }).getByRole("row").filter({ hasText: "alice" });
  assert.deepEqual((await mine.getByRole("cell").allTextContents()).slice(0, 5), ["alice", "3", "2", "1", "0"]);
  // What happens shows without a reload.
  await agent.take("figures1");
  await mine.getByRole("cell").nth(3).getByText("2", { exact: true }).waitFor();
  await page.getByText("Hour", { exact: true }).click();
  await mine.getByRole("cell").nth(3).getByText("2", { exact: true }).waitFor();
  await close(page);
});

test("a queue remembers what it was, shows what changed, and can be that again", async () => {
  for (const limit of [0, 3]) await makeQueue(server, { name: "changing", config: { spec: { backoffLimit: limit } } });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/changing/config");
  await page.getByRole("button", { name: "Version 2", exact: true }).click();
  await page.locator(".diff .removed").getByText("backoffLimit: 0").waitFor();
  await page.locator(".diff .added").getByText("backoffLimit: 3").waitFor();
  await page.getByRole("button", { name: "Take up again · Version 1" }).click();
  const drawer = page.getByRole("dialog");
  await drawer.getByRole("textbox", { name: "Configuration" }).getByText("backoffLimit: 0").waitFor();
  await drawer.locator(".diff .removed").getByText("backoffLimit: 3").waitFor();
  await drawer.getByRole("button", { name: "Save config" }).click();
  await drawer.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Version 3", exact: true }).waitFor();
  await page.getByRole("textbox", { name: "Configuration" }).getByText("backoffLimit: 0").waitFor();
  await close(page);
});

test("an agent is seen with its heartbeat, and can be told to stop", async () => {
  await makeQueue(server, { name: "served", config: {} });
  await startAgent(server, { queue: "served" });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/served/agents");
  const agent = page.getByRole("table", { name: "Agents" }).getByRole("row").filter({ hasText: "gpu-box-1" });
  await agent.locator("time").waitFor();
  await agent.getByRole("button", { name: /^Stop agent/ }).click();
  await agent.getByText("Stopping…").waitFor();
  await heading(page, "served").waitFor();
  await close(page);
});

test("a limit that is no number is refused beside its field, and a variable of a sum is one", async () => {
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch?open=queue");
  await page.getByLabel("Queue name").fill("summed");
  await write(page, "Configuration", "spec:\n  parallelism: '{{= workers + 1}}'\n");
  await page.getByText("1 template variable found").waitFor();
  await page.getByLabel("Type").selectOption("integer");
  await page.getByLabel("Maximum").fill("four");
  await page.getByText("This is not a number", { exact: true }).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Create queue" }).click();
  await page.getByRole("alert").getByText("is not a number").waitFor();
  await page.getByLabel("Maximum").fill("４");
  await page.getByRole("alert").waitFor({ state: "detached" });
  await page.getByRole("dialog").getByRole("button", { name: "Create queue" }).click();
  await heading(page, "summed").waitFor();
  await page.getByRole("link", { name: "Config", exact: true }).click();
  await page.getByText("Integer, at most 4").waitFor();
  await page.goBack();
  await page.goBack();
  assert.equal(await page.getByRole("dialog").count(), 0);
  await close(page);
});

test("an edit leaves the limits and choices of every type of variable as they were, and old text of the preview is marked", async () => {
  const schemas = {
    gpus: { type: "integer", enum: [1, 2, 4], default: 2 },
    memory: { type: "quantity", minimum: 1024, maximum: 8589934592, default: "4Gi" },
    patience: { type: "duration", maximum: 3600, enum: ["90s", "1h"] },
    share: { type: "number", minimum: 0.25 },
    zone: { type: "string", enum: ["a", "b"] },
  };
  const variables = Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, { schema }]));
  const annotations = Object.fromEntries(Object.keys(schemas).map((name) => [name, `{{${name}}}`]));
  await makeQueue(server, { name: "typed", config: { metadata: { annotations } }, variables });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/typed/config");
  await page.getByRole("button", { name: "Edit config" }).click();
  const drawer = page.getByRole("dialog");
  await preview(drawer).getByText("4Gi").waitFor();
  await drawer.getByRole("group", { name: "{{gpus}}" }).getByLabel("Options").fill("1, 2, four");
  await drawer.getByText("This is not a number", { exact: true }).waitFor();
  await drawer.getByText("this is how it was before").waitFor();
  await drawer.getByRole("group", { name: "{{gpus}}" }).getByLabel("Options").fill("1, 2, 4");
  await drawer.getByText("this is how it was before").waitFor({ state: "detached" });
  await drawer.getByRole("group", { name: "{{memory}}" }).getByLabel("Description").fill("of each rank");
  await drawer.getByRole("button", { name: "Save config" }).click();
  await drawer.waitFor({ state: "detached" });
  const asked = `{ project(name: "model-registry", entityName: "alice") { runQueue(name: "typed")
    { defaultResourceConfig { templateVariables { name schema } } } } }`;
  const told = (await server.graphql(asked)).project.runQueue.defaultResourceConfig.templateVariables;
  assert.deepEqual(Object.fromEntries(told.map(({ name, schema }) => [name, JSON.parse(schema)])), schemas);
  // An amount is judged by the server, and not taken for a number that is none.
  await page.goto(`${server.url}/launch/alice/typed?open=launch&queue=typed`);
  await page.getByLabel("memory", { exact: true }).fill("2Gi");
  await page.getByLabel("patience", { exact: true }).selectOption("90s");
  assert.equal(await page.getByText("The queue does not allow this value").count(), 0);
  await close(page);
});

test("what was written of a config is kept until it is saved, and not overwritten unasked", async () => {
  const variables = { n: { schema: { type: "integer", maximum: 4 } } };
  await makeQueue(server, { name: "kept", config: { spec: { parallelism: "{{n}}" } }, variables });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/kept/config");
  await page.getByRole("button", { name: "Edit config" }).click();
  const drawer = page.getByRole("dialog");
  await drawer.getByLabel("Maximum").fill("8");
  await drawer.getByText("JSON", { exact: true }).click();
  await drawer.locator(".diff .added").getByText("at most 8").waitFor();
  await drawer.getByRole("switch", { name: /Prioritization/ }).check();
  await drawer.locator(".diff .added").getByText("Prioritization: On").waitFor();
  await page.keyboard.press("Escape");
  await drawer.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Edit config" }).click();
  assert.equal(await drawer.getByLabel("Maximum").inputValue(), "8");
  await drawer.getByRole("button", { name: "Start over" }).click();
  assert.equal(await drawer.getByLabel("Maximum").inputValue(), "4");
  await drawer.getByRole("button", { name: "Cancel" }).click();

  await page.goto(`${server.url}/launch?open=queue`);
  await write(page, "Configuration", "spec:\n  backoffLimit: 7\n");
  await page.getByRole("radio", { name: "Docker" }).click();
  const asked = page.getByRole("dialog", { name: "Replace what you wrote?" });
  await asked.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("textbox", { name: "Configuration" }).getByText("backoffLimit: 7").waitFor();
  await page.getByRole("radio", { name: "Docker" }).click();
  await asked.getByRole("button", { name: "Replace" }).click();
  await page.getByRole("textbox", { name: "Configuration" }).getByText("{}").waitFor();
  await close(page);
});

test("an agent's silence and its signs of life show without an event", async () => {
  await makeQueue(server, { name: "silent", config: {} });
  await startAgent(server, { queue: "silent" });
  const page = await open(browser, server);
  await page.clock.install();
  await signIn(page, server, server.key, "/launch/alice/silent/agents");
  await page.getByRole("table", { name: "Agents" }).waitFor();
  const asked = page.waitForRequest((request) => (request.postData() ?? "").includes('"operationName":"Queue"'));
  await page.clock.fastForward(21_000);
  await asked;
  await close(page);
});
