// The page in a real browser, against a real server: the stories of the tutorials that people follow, click by click.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { curve, GPU_CONFIG, makeQueue, push, startAgent, startRun, stream } from "./data.mjs";
import { fill, PLACES } from "./screenshots.mjs";
import { close, enter, heading, launch, open, PATIENCE_MS, row, Server, signIn, startBrowser, write } from "./support.mjs";

/** What a first visit may load of scripts, compressed. */
const SCRIPT_BYTES_MAX = 250_000;
const ITEMS_MANY = 2000;

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), startBrowser()]);
});
after(async () => {
  await browser.close();
  await server.end();
});

test("a stranger is told to sign in, a wrong key is refused, and signing out closes the page", async () => {
  const page = await open(browser, server);
  await page.goto(`${server.url}/launch`);
  await page.locator("input[type=password]").fill("0".repeat(40));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("this does not sign in").waitFor();
  await page.locator("input[type=password]").fill(server.key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("No queues yet").waitFor();
  await page.reload();
  await page.getByText("No queues yet").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.locator("input[type=password]").waitFor();
  await page.reload();
  await page.locator("input[type=password]").waitFor();
  await close(page);
});

test("a one-time link signs in without a key, and a password does where one is set", async () => {
  const admin = await open(browser, server);
  await signIn(admin, server, server.key, "/settings");
  await admin.getByLabel("User name").fill("carol");
  await admin.getByRole("button", { name: "New user" }).click();
  const url = await admin.locator("pre", { hasText: "/signin?token=" }).textContent();
  await close(admin);
  const page = await open(browser, server);
  await page.goto(url);
  await page.getByRole("button", { name: "Sign out" }).getByText("carol").waitFor();
  await close(page);
  await server.send("PUT", "/api/v1/users/carol/password", { password: "correct horse battery" });
  const other = await open(browser, server);
  await other.goto(`${server.url}/launch`);
  await other.getByText("Password", { exact: true }).click();
  await other.getByLabel("User name").fill("carol");
  await other.locator("input[type=password]").fill("correct horse battery");
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByText("No queues yet").waitFor();
  await close(other);
});

test("the GPU queue of the tutorial is made, refuses five GPUs, takes two, and shows the run live until it is stopped", async () => {
  const page = await open(browser, server);
  await signIn(page, server);
  await page.getByRole("button", { name: "Create queue" }).first().click();
  await page.getByLabel("Queue name").fill("minikube");
  await write(page, "Configuration", GPU_CONFIG);
  await page.getByText("1 template variable found").waitFor();
  await page.getByRole("button", { name: "Parse configuration" }).click();
  await page.getByLabel("Type").selectOption("integer");
  await page.getByLabel("Minimum").fill("1");
  await page.getByLabel("Maximum").fill("4");
  await page.getByLabel("Default").fill("1");
  await page.getByRole("dialog").getByRole("button", { name: "Create queue" }).click();
  await heading(page, "minikube").waitFor();
  await page.getByText("volley agent -q minikube -e alice").waitFor();

  await launch(page, { image: "wandb/job_stable_diffusion_inference:main" });
  await page.getByLabel("gpus").fill("5");
  await page.getByText("The queue does not allow this value").waitFor();
  await page.getByRole("button", { name: "Launch now" }).click();
  await page.getByRole("alert").getByText("gpus").waitFor();
  await page.getByLabel("gpus").fill("2");
  await page.getByRole("button", { name: "Launch now" }).click();
  const item = row(page, "job_stable_diffusion_inference");
  await item.getByText("gpus 2").waitFor();
  await item.getByText("Idle").waitFor();

  const agent = await startAgent(server, { queue: "minikube" });
  await item.getByText("Queued").waitFor();
  await agent.take("sd1", { lr: 0.1 });
  await item.getByText("Running").waitFor();
  await item.getByRole("link").click();
  await heading(page, "sd1").waitFor();
  await page.getByText("In the queue", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Stopping…" }).waitFor();
  await stream(server, { run: "sd1", exitcode: 255 });
  await page
    .locator("header")
    .getByText(/Stopped/)
    .waitFor();
  await close(page);
});

test("the Volcano queue is made from its template, and a launch changes its workers", async () => {
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch?open=queue");
  await page.getByRole("radio", { name: "Volcano + PyTorch" }).check();
  await page.getByLabel("Queue name").fill("volcano");
  await page.getByRole("dialog").getByRole("button", { name: "Create queue" }).click();
  await heading(page, "volcano").waitFor();
  await launch(page, { image: "wandb/multinode:main" });
  await page.getByText("Resource config", { exact: true }).click();
  const { config } = (
    await server.graphql(
      '{ project(entityName: "alice", name: "model-registry") { runQueue(name: "volcano") { defaultResourceConfig { config } } } }',
    )
  ).project.runQueue.defaultResourceConfig;
  const job = config.resource_args.kubernetes;
  job.spec.tasks[1].replicas = 3;
  await write(page, "Resource config", JSON.stringify(job));
  await page.getByRole("button", { name: "Launch now" }).click();
  await row(page, "multinode").waitFor();
  const items = (
    await server.graphql(
      '{ project(entityName: "alice", name: "model-registry") { runQueue(name: "volcano") { runQueueItems(first: 9) { edges { node { runSpec } } } } } }',
    )
  ).project.runQueue.runQueueItems.edges;
  assert.deepEqual(
    items.map(({ node }) => node.runSpec.resource_args.kubernetes.spec.tasks[1].replicas),
    [3],
  );
  await close(page);
});

test("an unquoted variable is marked, and mended by one click", async () => {
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch?open=queue");
  await write(page, "Configuration", "spec:\n  replicas: {{workers}}\n");
  const mark = page.locator(".cm-lintRange-error").first();
  await mark.waitFor();
  await mark.hover();
  await page.getByRole("button", { name: /Action: Fix/ }).click();
  await page.getByText("1 template variable found").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await close(page);
});

test("a queue's config is edited, its difference shown, and saved", async () => {
  await makeQueue(server, { name: "editable", config: { spec: { backoffLimit: 0 } } });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/editable/config");
  await page.getByRole("button", { name: "Edit config" }).click();
  await write(page, "Configuration", "spec:\n  backoffLimit: 3\n");
  await page.locator(".diff .added").getByText("backoffLimit: 3").waitFor();
  await page.getByRole("button", { name: "Save config" }).click();
  await page.getByRole("button", { name: "Edit config" }).waitFor();
  await page.getByRole("textbox", { name: "Configuration" }).getByText("backoffLimit: 3").waitFor();
  await close(page);
});

test("a run is launched again with what it was launched with, and overrides", async () => {
  const variables = { gpus: { schema: { type: "integer", minimum: 1, maximum: 4, default: 1 } } };
  await makeQueue(server, { name: "again", config: { spec: { gpus: "{{gpus}}" } }, variables, mode: "V0" });
  const spec = {
    name: "first",
    docker: { docker_image: "train:7" },
    overrides: { args: ["--epochs", "3"], run_config: { lr: 0.5 } },
  };
  await push(server, { queue: "again", spec, values: { gpus: 3 }, priority: 1 });
  await (await startAgent(server, { queue: "again" })).take("again1");
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/alice/mnist/runs/again1");
  await page.getByRole("button", { name: "Launch again" }).click();
  assert.equal(await page.getByRole("textbox", { name: "Image" }).inputValue(), "train:7");
  assert.equal(await page.getByLabel("gpus").inputValue(), "3");
  assert.equal(await page.getByLabel("Priority").inputValue(), "1");
  await page.getByRole("textbox", { name: "Run config" }).getByText("lr: 0.5").waitFor();
  await page.getByLabel("Arguments").fill("--epochs 9 --note 'two words'");
  await page.getByLabel("Run name").fill("second");
  await page.getByRole("button", { name: "Launch now" }).click();
  await row(page, "second").waitFor();
  const items = (
    await server.graphql(
      '{ project(entityName: "alice", name: "model-registry") { runQueue(name: "again") { runQueueItems(first: 9) { edges { node { runSpec } } } } } }',
    )
  ).project.runQueue.runQueueItems.edges;
  assert.deepEqual(items[1].node.runSpec.overrides, { args: ["--epochs", "9", "--note", "two words"], run_config: { lr: 0.5 } });
  await close(page);
});

test("a run's curves and output grow on the page while it goes on", async () => {
  await startRun(server, { run: "live1", config: { lr: 0.1 } });
  await stream(server, { run: "live1", history: curve(20), logs: ["first line"] });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/alice/mnist/runs/live1/charts");
  const chart = page.getByRole("img", { name: /^Chart of loss; last value/ });
  await chart.waitFor();
  const first = await chart.getAttribute("aria-label");
  await stream(server, { run: "live1", history: curve(30, 1, 20), logs: ["second line"], at: { history: 20, logs: 1 } });
  await page.waitForFunction(
    (before) => document.querySelector('[aria-label^="Chart of loss"]')?.getAttribute("aria-label") !== before,
    first,
  );
  await page.getByRole("link", { name: /^Logs/ }).click();
  await page.getByRole("log").getByText("second line").waitFor();
  await close(page);
});

test("the first error is pinned, and all lines can be searched", async () => {
  const lines = Array.from({ length: 3000 }, (_, index) =>
    index === 2500 ? "RuntimeError: CUDA out of memory" : `step ${index}`,
  );
  await startRun(server, { run: "failed1" });
  await stream(server, { run: "failed1", logs: lines, exitcode: 1 });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/alice/mnist/runs/failed1/logs");
  await page.getByRole("button", { name: /First error, line 2501/ }).click();
  await page.getByRole("log").getByText("CUDA out of memory").waitFor();
  await page.getByLabel("Search all lines").fill("step 42");
  await page.getByText("1 of 11").waitFor();
  await page.getByRole("log").getByText("step 42", { exact: true }).waitFor();
  await close(page);
});

test("another user sees only what they may", async () => {
  await makeQueue(server, { name: "private-queue", config: {} });
  const { key } = await server.send("POST", "/api/v1/users", { username: "bob" });
  const page = await open(browser, server);
  await signIn(page, server, key);
  await page.getByText("No queues yet").waitFor();
  assert.deepEqual(await page.getByLabel("Entity").locator("option").allTextContents(), ["bob"]);
  await page.goto(`${server.url}/launch/alice/private-queue`);
  await page.getByText("There is no queue private-queue").waitFor();
  await page.goto(`${server.url}/alice/mnist/runs/live1`);
  await page.getByText("There is no run live1").waitFor();
  await close(page);
});

test("a job is launched by keyboard alone", async () => {
  await makeQueue(server, { name: "keyboard", config: { spec: {} } });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/keyboard");
  await heading(page, "keyboard").waitFor();
  const focused = () =>
    page.evaluate(() => {
      const at = document.activeElement;
      return (
        at?.getAttribute("aria-label") ||
        (at?.id && document.querySelector(`label[for="${at.id}"]`)?.textContent) ||
        at?.textContent
      );
    });
  const tabTo = async (name) => {
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press("Tab");
      if ((await focused()) === name) return;
    }
    assert.fail(`${name} cannot be reached by Tab`);
  };
  await tabTo("Launch");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Launch now" }).waitFor();
  assert.equal(await focused(), "Image");
  await page.keyboard.type("train:8");
  await tabTo("Arguments");
  await page.keyboard.type("--fast");
  await tabTo("Launch now");
  await page.keyboard.press("Enter");
  await row(page, "train:8").waitFor();
  await close(page);
});

test("the page says that the server is away, loses no input, and is right again by itself", async () => {
  await makeQueue(server, { name: "restarted", config: {} });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/restarted");
  await launch(page, { image: "typed/before:1" });
  await server.stop();
  await page.getByText("The server cannot be reached. Trying again").waitFor();
  await page.getByRole("button", { name: "Launch now" }).click();
  await page.getByRole("alert").getByText("cannot be reached").waitFor();
  await server.comeBack();
  await page.getByText("The server cannot be reached. Trying again").waitFor({ state: "detached" });
  assert.equal(await page.getByRole("textbox", { name: "Image" }).inputValue(), "typed/before:1");
  await page.reload();
  await page.getByRole("button", { name: "Launch now" }).waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Image" }).inputValue(), "typed/before:1");
  await page.getByRole("button", { name: "Launch now" }).click();
  await row(page, "before:1").waitFor();
  // The stream is followed again: what others submit appears too.
  await push(server, { queue: "restarted", spec: { name: "by-somebody-else", docker: { docker_image: "x" } } });
  await row(page, "by-somebody-else").waitFor();
  page.complaints = page.complaints.filter((text) => !text.includes("ERR_"));
  await close(page);
});

test("a computer whose clock is three days ahead shows the same", async () => {
  await makeQueue(server, { name: "skewed", config: {} });
  await push(server, { queue: "skewed", spec: { name: "fresh", docker: { docker_image: "x" } } });
  await startAgent(server, { queue: "skewed" });
  const page = await open(browser, server);
  await page.addInitScript(() => {
    const real = Date.now;
    Date.now = () => real() + 3 * 86_400_000;
  });
  await signIn(page, server, server.key, "/launch/alice/skewed");
  const item = row(page, "fresh");
  await item.getByText("Queued").waitFor();
  assert.doesNotMatch(await item.locator("time").textContent(), /d/);
  await close(page);
});

test("what was typed and not sent is still there later, and can be taken back", async () => {
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch?open=queue");
  await page.getByLabel("Queue name").fill("half-typed");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Create queue" }).first().click();
  assert.equal(await page.getByLabel("Queue name").inputValue(), "half-typed");
  // A session that ends meanwhile takes nothing away.
  await page.context().request.delete(`${server.url}/api/v1/session`, { headers: { "x-volley-page": "1" } });
  await page.getByRole("dialog").getByRole("button", { name: "Create queue" }).click();
  await page.locator("input[type=password]").fill(server.key);
  await page.getByRole("button", { name: "Sign in" }).click();
  assert.equal(await page.getByLabel("Queue name").inputValue(), "half-typed");
  await page.getByRole("button", { name: "Start over" }).click();
  assert.equal(await page.getByLabel("Queue name").inputValue(), "");
  await close(page);
});

test("a long queue keeps few rows in the page, and the last is reached by scrolling", async () => {
  await makeQueue(server, { name: "long", config: {} });
  for (let done = 0; done < ITEMS_MANY; done += 50) {
    await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        push(server, { queue: "long", spec: { name: `item-${done + index}`, docker: { docker_image: "x" } } }),
      ),
    );
  }
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/launch/alice/long");
  await page.getByRole("table").waitFor();
  assert.equal(await page.getByRole("table").getAttribute("aria-rowcount"), String(ITEMS_MANY + 1));
  const rows = await page.getByRole("row").count();
  assert.ok(rows < 120, `${rows} rows are in the page`);
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await page.locator(`tr[aria-rowindex="${ITEMS_MANY + 1}"]`).waitFor();
  await page.getByLabel("Search runs").fill("item-777");
  await row(page, "item-777").waitFor();
  await close(page);
});

test("a first visit loads no more script than its budget, and only from the server", async () => {
  const page = await open(browser, server);
  const scripts = [];
  page.on("response", (response) => response.request().resourceType() === "script" && scripts.push(response));
  await signIn(page, server);
  await page.getByRole("heading", { level: 1, name: "Launch" }).waitFor();
  const sizes = await Promise.all(
    scripts.map(async (script) => [script.headers()["content-encoding"], (await script.request().sizes()).responseBodySize]),
  );
  assert.ok(
    sizes.every(([encoding]) => encoding === "br" || encoding === "gzip"),
    "all scripts are compressed",
  );
  const total = sizes.reduce((sum, [, size]) => sum + size, 0);
  console.log(`first load: ${total} bytes of compressed script`);
  assert.ok(total > 0 && total <= SCRIPT_BYTES_MAX, `${total} bytes of script`);
  await close(page);
});

test("Korean and Chinese readers have the page in their language", async () => {
  for (const [locale, sign, queues] of [
    ["ko-KR", "로그인", "큐"],
    ["zh-CN", "登录", "队列"],
  ]) {
    const page = await open(browser, server, { locale });
    await page.goto(`${server.url}/launch`);
    await page.locator("input[type=password]").fill(server.key);
    await page.getByRole("button", { name: sign, exact: true }).click();
    await page.getByRole("link", { name: queues, exact: true }).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), locale.slice(0, 2));
    await close(page);
  }
});

test("axe finds nothing serious on any page, in light and in dark", { timeout: 10 * PATIENCE_MS }, async () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  const full = await Server.start();
  try {
    await fill(full);
    for (const colorScheme of ["light", "dark"]) {
      const page = await open(browser, full, { colorScheme });
      const judge = async (name) => {
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() =>
          globalThis.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }),
        );
        const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
        assert.deepEqual(
          serious.map(
            ({ id, nodes }) => `${name} ${colorScheme}: ${id} ${nodes.map(({ target }) => target.join(" ")).join(", ")}`,
          ),
          [],
        );
      };
      await page.goto(full.url);
      await page.locator("input[type=password]").waitFor();
      await judge("sign-in");
      await enter(page, full);
      for (const [name, path, sign] of PLACES) {
        await page.goto(full.url + path);
        await page.locator(sign).first().waitFor();
        await judge(name);
      }
      await close(page);
    }
  } finally {
    await full.end();
  }
});
