// The run and the cluster page in a real browser: stories of jobs with several ranks, and of servers and networks that go away.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { parse } from "yaml";
import { curve, makeQueue, pictureOf, push, seats, startOurAgent, startRun, stream, systemRows } from "./data.mjs";
import { close, enter, open, PATIENCE_MS, Server, startBrowser, Up, Wire } from "./support.mjs";

const LINES_MANY = 60_000;
const AWAY = "The server cannot be reached. Trying again";
const REASON = "needs 8 nvidia.com/gpu together, 6 free; run ab12 of team x holds 2 until about 14:05";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), startBrowser()]);
});
after(async () => {
  await browser.close();
  await server.end();
});

/** A page of somebody who is signed in, at a place. */
async function at(path, options = {}, where = server) {
  const page = await open(browser, where, options);
  await enter(page, { url: where.url, key: server.key });
  await page.goto(where.url + path);
  return page;
}

/** What somebody typed into a form, or sees of a cut, is no complaint. */
const forgive = (page) => {
  page.complaints = page.complaints.filter((text) => !/ERR_|Failed to fetch|NetworkError/.test(text));
};

let queues = 0;
/** Something is launched, and an agent of ours starts on it. */
async function launch(run, { name = run } = {}) {
  const queue = `gang-${queues++}`;
  await makeQueue(server, { name: queue, config: { kind: "Job" } });
  await push(server, { queue, spec: { name, docker: { docker_image: "train:1" } } });
  const agent = await startOurAgent(server, { queue });
  const item = await agent.take();
  await agent.start(item.lease, run);
  return { agent, item, queue };
}

test("a gang is followed from its wait to its end: each wait is named, each rank has its pod, node and GPUs", async () => {
  const { agent, item, queue } = await launch("gang1", { name: "llama-pretrain" });
  await agent.note(item.lease, {
    waiting: REASON,
    place: seats(3, "Pending"),
    manifest: { kind: "Job", spec: { minAvailable: 3 } },
  });
  const page = await at("/alice/mnist/runs/gang1");
  await page.getByText("Why it waits:").waitFor();
  const story = page.getByRole("list", { name: "Timeline of gang1" });
  await story.getByText("In the queue").waitFor();
  await story.getByText(REASON).waitFor();
  const nowhere = page.getByRole("region", { name: "Not placed yet" });
  await nowhere.getByRole("link", { name: /worker-1/ }).waitFor();

  await agent.note(item.lease, { waiting: null, state: "running", place: seats(5) });
  await page.getByText("5 ranks on 2 nodes").waitFor();
  await nowhere.waitFor({ state: "detached" });
  const second = page.getByRole("region", { name: "gpu-node-2" });
  const rank = second.getByRole("link", { name: /Rank 4\s*worker-3/ });
  await rank.getByText("llama-x7k2-worker-3").waitFor();
  await rank.getByText("Running").waitFor();
  assert.equal(await rank.locator(".chip-gpu").count(), 2);
  await page.getByText("Why it waits:").waitFor({ state: "detached" });
  await story.getByText("Starting").waitFor();
  assert.ok(await story.getByText(REASON).isVisible(), "a wait that is over keeps its reason");

  const phases = seats(5);
  phases[4].phase = "Failed";
  await agent.note(item.lease, { place: phases });
  await rank.getByText("Failed").waitFor();

  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("button", { name: "Stopping…" }).waitFor();
  const { stop_asked } = await server.send("GET", `/api/v1/items/${encodeURIComponent(item.id)}`);
  assert.ok(stop_asked, "the agent is told to end all of it");
  await agent.end(item.lease, { state: "stopped" });
  await story.getByText("Stopped").waitFor();
  await page.getByRole("link", { name: "Config" }).click();
  await page.getByRole("heading", { name: "Manifest, as submitted to the cluster" }).waitFor();
  await page.getByText("minAvailable: 3").waitFor();
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("link", { name: queue, exact: true }).waitFor();
  await close(page);
});

const labelled = (label, text, second = 0) =>
  `2026-01-31T12:00:${String(second % 60).padStart(2, "0")}.000000 [${label}] ${text}`;

test("lines of all ranks are interleaved, one rank can be read alone, and goes on while it is read", async () => {
  const { agent, item } = await launch("ranks1");
  await agent.note(item.lease, { state: "running", place: seats(3) });
  const ranks = seats(3).map(({ label }) => label);
  const lines = Array.from({ length: 300 }, (_, index) =>
    labelled(ranks[index % 3], `step ${Math.floor(index / 3)} of ${ranks[index % 3]}`, index),
  );
  await stream(server, { run: "ranks1", logs: lines });
  const page = await at("/alice/mnist/runs/ranks1");
  await page.getByRole("link", { name: /Rank 2\s*worker-1/ }).click();
  const log = page.getByRole("log");
  await log.getByText("step 99 of worker-1").waitFor();
  await page.getByText("100 lines").waitFor();
  assert.equal(await log.getByText("of master-0").count(), 0);
  await stream(server, {
    run: "ranks1",
    logs: [labelled("worker-1", "one more of worker-1"), labelled("master-0", "one more of master-0")],
    at: { logs: 300 },
  });
  await log.getByText("one more of worker-1").waitFor();
  await page.getByText("101 lines").waitFor();
  await page.getByLabel("Rank", { exact: true }).selectOption("All ranks");
  await log.getByText("one more of master-0").waitFor();
  await page.getByText("302 lines").waitFor();
  // Names of ranks stand beside lines, and the rank that was chosen is a part of the address.
  await page.getByLabel("Rank", { exact: true }).selectOption("master-0");
  assert.match(page.url(), /rank=master-0/);
  await page.getByLabel("Search all lines").fill("step 42 of");
  await page.getByText("1 of 1", { exact: true }).waitFor();
  await log.getByText("step 42 of master-0").waitFor();
  await close(page);
});

test("the first failure is pinned, and a measure that is called an error is none", async () => {
  await startRun(server, { run: "broken1" });
  const lines = Array.from({ length: 5000 }, (_, index) => `epoch ${index} mean squared error: 0.${index}`);
  lines[4321] = "torch.distributed.DistBackendError: NCCL error in ProcessGroupNCCL.cpp:1275";
  await stream(server, { run: "broken1", logs: lines, exitcode: 1 });
  const page = await at("/alice/mnist/runs/broken1/logs");
  await page.getByRole("button", { name: /First error, line 4322/ }).click();
  await page.locator(".line.bad").getByText("DistBackendError").waitFor();
  await close(page);
});

test("of a long log few lines are in the page, its end and any line are a moment away", async () => {
  await startRun(server, { run: "long1" });
  for (let done = 0; done < LINES_MANY; done += 20_000) {
    const logs = Array.from({ length: 20_000 }, (_, index) => `line ${done + index}`);
    await stream(server, { run: "long1", logs, at: { logs: done } });
  }
  const page = await at("/alice/mnist/runs/long1/logs");
  const log = page.getByRole("log");
  await log.getByText(`line ${LINES_MANY - 1}`, { exact: true }).waitFor();
  assert.ok((await page.locator(".line").count()) < 150);
  await page.getByLabel("Follow").uncheck();
  await log.evaluate((box) => {
    box.scrollTop = box.scrollHeight / 2;
  });
  await log.getByText(`line ${LINES_MANY / 2}`, { exact: true }).waitFor();
  await page.getByLabel("Search all lines").fill("line 12345");
  await log.getByText("line 12345", { exact: true }).waitFor();
  // What is written meanwhile does not move what is read; who follows again is at the end.
  await stream(server, { run: "long1", logs: ["the newest line"], at: { logs: LINES_MANY } });
  await page.getByText(`${(LINES_MANY + 1).toLocaleString("en")} lines`).waitFor();
  assert.ok(await log.getByText("line 12345", { exact: true }).isVisible());
  await page.getByLabel("Follow").check();
  await log.getByText("the newest line").waitFor();
  await close(page);
});

test("a chart is zoomed to a part, in which every point is shown, and back", async () => {
  await startRun(server, { run: "zoom1" });
  for (let done = 0; done < 20_000; done += 5000)
    await stream(server, { run: "zoom1", history: curve(5000, 1, done), at: { history: done } });
  const page = await at("/alice/mnist/runs/zoom1/charts");
  const over = page.locator("figure", { hasText: "loss" }).locator(".u-over");
  await page.getByRole("img", { name: /^Chart of loss; last value loss: \d/ }).waitFor();
  // A chart may be made anew, so its canvas is looked up each time.
  const canvas = page.locator("figure", { hasText: "loss" }).locator("canvas");
  const picture = () => canvas.evaluate((canvas) => canvas.toDataURL());
  const isOther = async (before) => {
    while ((await picture()) === before) await page.waitForTimeout(50);
  };
  const whole = await picture();
  const asked = page.waitForRequest((request) => (request.postData() ?? "").includes("minStep"));
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 40, { steps: 4 });
  await page.mouse.up();
  const all = page.getByRole("button", { name: "Show all of it" });
  await all.waitFor();
  const [, from, to] = /minStep\\":(\d+),\\"maxStep\\":(\d+)/.exec((await asked).postData());
  assert.ok(Number(from) > 4000 && Number(to) < 7000, `${from} to ${to}`);
  // What changes while one looks at a part is drawn in it.
  await isOther(whole);
  const part = await picture();
  await page.getByLabel("Smoothing").fill("0.9");
  await isOther(part);
  await page.getByLabel("Log axis").check();
  await all.click();
  await all.waitFor({ state: "detached" });
  await close(page);
});

test("a chart tells what is under the cursor, for one line and for many, and nothing moves", async () => {
  for (const [run, name] of [
    ["hover1", "hovered"],
    ["hover2", ""],
  ]) {
    await startRun(server, { run, name });
    await stream(server, { run, history: curve(101, run === "hover1" ? 1 : 3), system: systemRows(20) });
  }
  await startRun(server, { run: "hover0" });
  await stream(server, { run: "hover0", history: [{ _step: 0, other: 1 }] });
  const page = await at("/alice/mnist/runs/hover1/charts");
  const chart = page.locator("figure", { hasText: "loss" });
  const values = chart.locator(".u-value");
  const hover = async () => {
    await chart.scrollIntoViewIfNeeded();
    const box = await chart.locator(".u-over").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + 40, { steps: 2 });
  };
  const height = async () => (await chart.boundingBox()).height;
  const shows = async (...texts) =>
    page.waitForFunction(
      ([all, wanted]) => wanted.every((text, index) => all[index]?.textContent === text),
      [await values.elementHandles(), texts],
    );
  const told = (step, seed) => Intl.NumberFormat("en", { maximumSignificantDigits: 5 }).format(curve(101, seed)[step].loss);
  await values.first().waitFor();
  await shows("100", told(100, 1));
  const before = await height();
  await hover();
  await shows("50", told(50, 1));
  assert.equal(await height(), before);

  // The first run has no loss: the others keep their colours, which the legend above has too.
  await page.goto(`${server.url}/alice/mnist/compare?runs=hover0,hover1,hover2`);
  await values.nth(2).waitFor();
  const much = await height();
  await hover();
  await shows("50", told(50, 1), told(50, 3));
  assert.equal(await height(), much);
  const labels = await chart.locator(".u-label").allTextContents();
  assert.ok(labels.every(Boolean), "also a run without a name has a label");
  assert.deepEqual(labels.slice(1), (await page.locator(".legend a").allTextContents()).slice(1));
  const colours = (locator, name) => locator.evaluateAll((all, name) => all.map((one) => getComputedStyle(one)[name]), name);
  assert.deepEqual(
    (await colours(chart.locator(".u-marker"), "borderTopColor")).slice(1),
    (await colours(page.locator(".legend .swatch"), "backgroundColor")).slice(1),
  );
  await page.goto(`${server.url}/alice/mnist/runs/hover1/system`);
  await page.getByRole("img", { name: /^Chart of memory_percent; last value memory_percent: [\d.]+ %/ }).waitFor();
  await close(page);
});

test("whoever scrolls away from the end reads on where they are, and follows again from the end", async () => {
  await startRun(server, { run: "follow1" });
  const lines = (from) => Array.from({ length: 500 }, (_, index) => `line ${from + index}`);
  await stream(server, { run: "follow1", logs: lines(0) });
  const page = await at("/alice/mnist/runs/follow1/logs");
  const log = page.getByRole("log");
  const follow = page.getByRole("switch", { name: "Follow" });
  const isOn = (isOn) => page.waitForFunction(([box, isOn]) => box.checked === isOn, [followBox, isOn]);
  await log.getByText("line 499", { exact: true }).waitFor();
  const followBox = await follow.elementHandle();
  const top = () => log.evaluate((box) => box.scrollTop);
  // As a finger or the bar moves it.
  await log.evaluate((box) => box.scrollBy(0, -400));
  await isOn(false);
  const before = await top();
  await stream(server, { run: "follow1", logs: lines(500), at: { logs: 500 } });
  await page.getByText("1,000 lines").waitFor();
  assert.equal(await top(), before);
  await log.evaluate((box) => box.scrollTo(0, box.scrollHeight));
  await isOn(true);
  await stream(server, { run: "follow1", logs: lines(1000), at: { logs: 1000 } });
  await log.getByText("line 1499", { exact: true }).waitFor();
  await log.focus();
  await page.keyboard.press("PageUp");
  await isOn(false);
  await page.keyboard.press("End");
  await isOn(true);
  // A search leads somewhere, also to the end: that is no wish to follow.
  await page.getByLabel("Search all lines").fill("line 1499");
  await isOn(false);
  await log.locator(".line.current").waitFor();
  assert.equal(await follow.isChecked(), false);
  await close(page);
});

test("the cluster page shows every GPU with who holds it, what waits and why, and changes by itself", async () => {
  const { agent, item } = await launch("held1", { name: "vit-large" });
  await agent.note(item.lease, { state: "running" });
  const holders = [{ node: 0, gpus: 4, pod: "vit-0", item: item.key }];
  await agent.tellCluster(pictureOf({ holders }));
  const page = await at("/cluster");
  await page.getByText("2 nodes, 16 GPUs").waitFor();
  const figures = page.locator(".cluster-figures");
  await figures.getByText("4 / 16").waitFor();
  assert.equal(await figures.getByText("not told").count(), 2, "what nobody measures is not told");
  const cells = page.getByRole("list", { name: "GPUs: gpu-node-1" }).getByRole("listitem");
  assert.equal(await cells.count(), 8);
  await cells
    .nth(3)
    .getByText(/vit-large/)
    .waitFor({ state: "attached" });
  await cells.nth(4).getByText(/free/).waitFor({ state: "attached" });
  await page.getByRole("link", { name: "vit-large" }).first().waitFor();

  const waiting = [
    { namespace: "ml", name: "llama", item: null, pods: 2, gpus: 8, since: "2026-01-01T00:00:00Z", reason: REASON },
  ];
  const events = [
    {
      at: new Date().toISOString(),
      is_warning: true,
      reason: "FailedScheduling",
      namespace: "ml",
      about: "Pod llama-0",
      message: REASON,
      item: null,
    },
  ];
  await agent.tellCluster(pictureOf({ holders, waiting, events, usage: 1 }));
  await page.getByText("ml/llama").waitFor();
  await page.getByText("FailedScheduling").waitFor();
  await page.getByText("Utilisation", { exact: true }).last().click();
  await cells.nth(2).getByText("70", { exact: true }).waitFor();
  await page.getByRole("link", { name: "vit-large" }).first().click();
  await page.getByRole("heading", { level: 1, name: "vit-large" }).waitFor();
  await close(page);
});

test("somebody of another team sees that a GPU is held and not by whom", async () => {
  const { key } = await server.send("POST", "/api/v1/users", { username: "dora" });
  await server.send("POST", "/api/v1/teams", { name: "others" });
  await server.send("PUT", "/api/v1/teams/others/members/dora", { role: "admin" });
  const { agent, item } = await launch("secret1", { name: "secret-name" });
  await server.graphql(
    'mutation { upsertRunQueue(input: {entityName: "others", projectName: "model-registry", queueName: "q", resourceType: "kubernetes", resourceConfig: "{}"}) { success } }',
    {},
    key,
  );
  const own = await startOurAgent(server, { entity: "others", queue: "q", key });
  const events = [
    {
      at: "2026-01-01T00:00:00Z",
      is_warning: false,
      reason: "Started",
      namespace: "ml",
      about: "Pod secret-pod",
      message: "",
      item: item.key,
    },
  ];
  const picture = pictureOf({ holders: [{ node: 0, gpus: 2, pod: "secret-pod", item: item.key }], events });
  await own.tellCluster(picture);
  await agent.note(item.lease, { state: "running" });
  const told = await server.send("GET", "/api/v1/clusters?entity=others", undefined, key);
  assert.doesNotMatch(JSON.stringify(told), /secret/);
  assert.equal(told.clusters[0].picture.nodes[0].pods[0].is_hidden, true);
  assert.equal(told.clusters[0].picture.nodes[0].pods[0].gpus, 2);
  assert.deepEqual((await server.send("GET", "/api/v1/clusters?entity=alice", undefined, key)).clusters, []);
});

test("a server that is killed and comes back is followed again: the run page shows the truth by itself", async () => {
  await startRun(server, { run: "survivor" });
  await stream(server, { run: "survivor", history: curve(10), logs: ["before the fall"] });
  const page = await at("/alice/mnist/runs/survivor/logs");
  await page.getByRole("log").getByText("before the fall").waitFor();
  await page.getByLabel("Search all lines").fill("half typed");
  await server.kill();
  await page.getByText(AWAY).waitFor();
  assert.ok(await page.getByRole("log").getByText("before the fall").isVisible(), "what was known is still shown");
  await server.comeBack();
  await stream(server, { run: "survivor", logs: ["while nobody looked"], at: { logs: 1 } });
  await page.getByText(AWAY).waitFor({ state: "detached" });
  await page.getByRole("log").getByText("while nobody looked").waitFor();
  assert.equal(await page.getByLabel("Search all lines").inputValue(), "half typed");
  await stream(server, { run: "survivor", logs: ["and after that"], exitcode: 0, at: { logs: 2 } });
  await page.getByRole("log").getByText("and after that").waitFor();
  await page.locator("header").getByText("Finished").waitFor();
  forgive(page);
  await close(page);
});

test("a cut network is told of, and what happened meanwhile is shown when it is mended", async () => {
  await startRun(server, { run: "distant" });
  await stream(server, { run: "distant", history: curve(10) });
  const wire = await Wire.to(server);
  const page = await at("/alice/mnist/runs/distant/charts", {}, wire);
  const chart = page.getByRole("img", { name: /^Chart of loss; last value/ });
  await chart.waitFor();
  const before = await chart.getAttribute("aria-label");
  await wire.cut();
  await page.getByText(AWAY).waitFor();
  await stream(server, { run: "distant", history: curve(40, 1, 10), at: { history: 10 } });
  assert.equal(await chart.getAttribute("aria-label"), before);
  await wire.mend();
  await page.getByText(AWAY).waitFor({ state: "detached" });
  await page.waitForFunction(
    (before) => document.querySelector('[aria-label^="Chart of loss"]')?.getAttribute("aria-label") !== before,
    before,
  );
  // A computer that loses its network says so at once, without any packet.
  await page.context().setOffline(true);
  await page.getByText(AWAY).waitFor();
  await page.context().setOffline(false);
  await page.getByText(AWAY).waitFor({ state: "detached" });
  forgive(page);
  await close(page);
  await wire.cut();
});

test("a clock that is wrong, and jumps while one looks, changes no time on the page", async () => {
  const { agent, item } = await launch("skewed1");
  await agent.note(item.lease, { state: "running", place: seats(2) });
  const page = await open(browser, server);
  await page.addInitScript(() => {
    const real = Date.now;
    globalThis.skew = -5 * 86_400_000;
    Date.now = () => real() + globalThis.skew;
  });
  await enter(page, server);
  await page.goto(`${server.url}/alice/mnist/runs/skewed1`);
  const shown = page.locator(".page-head .badges .number");
  await shown.waitFor();
  assert.match(await shown.textContent(), /^\d+s$|^[0-9]m \d+s$/);
  await page.evaluate(() => {
    globalThis.skew = 9 * 86_400_000;
  });
  // The next answer of the server says what time it is.
  await stream(server, { run: "skewed1", logs: ["tick"] });
  await page.waitForFunction(() =>
    /^(\d+s|[0-9]m \d+s)$/.test(document.querySelector(".page-head .badges .number")?.textContent ?? ""),
  );
  await page
    .getByRole("list", { name: "Timeline of skewed1" })
    .getByText(/^[\d.]+s$|^[0-9]m \d+s$/)
    .first()
    .waitFor();
  await close(page);
});

test("run and cluster fit a phone: nothing is wider than its window", async () => {
  const { agent, item } = await launch("narrow1", { name: "a-run-with-a-rather-long-name-for-a-small-window" });
  await agent.note(item.lease, { state: "running", place: seats(6) });
  await agent.tellCluster(
    pictureOf({ nodes: 3, holders: [{ node: 0, gpus: 8, pod: "x", item: item.key }], usage: 0.9 }),
    "phone",
  );
  await stream(server, { run: "narrow1", history: curve(30), logs: ["x".repeat(500)] });
  const page = await at("/cluster", { viewport: { width: 390, height: 844 }, hasTouch: true });
  for (const [path, sign] of [
    ["/cluster", ".gpu-cell"],
    ["/alice/mnist/runs/narrow1", ".seat"],
    ["/alice/mnist/runs/narrow1/charts", ".u-over"],
    ["/alice/mnist/runs/narrow1/logs", ".line"],
    ["/alice/mnist/runs/narrow1/files", ".empty"],
  ]) {
    await page.goto(server.url + path);
    await page.locator(sign).first().waitFor();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), path);
  }
  await close(page);
});

test("all texts of these pages are there in Korean and Chinese", async () => {
  const source = readFileSync(new URL("../src/text/run.ts", import.meta.url), "utf8");
  assert.ok(source.includes("koRun: RunText") && source.includes("zhRun: RunText"), "the compiler holds them to English");
  const page = await at("/cluster", { locale: "ko-KR" });
  await page.getByRole("heading", { level: 1, name: "클러스터" }).waitFor();
  await close(page);
});

test("the Volcano queue with more workers on a real cluster: gang map, all ranks' lines, a live curve, stop", {
  timeout: 6 * PATIENCE_MS,
}, async () => {
  const example = join(import.meta.dirname, "../../examples/wandb-volcano");
  const python = join(import.meta.dirname, "../../.cache/wandb/bin/python");
  const up = await Up.start();
  try {
    await up.run("queue", "create", "volcano", "--file", join(example, "queue.yaml"));
    await up.kubectl("create", "namespace", "wandb");
    const { config } = parse(readFileSync(join(example, "queue.yaml"), "utf8"));
    config.spec.tasks[1].replicas = 2;
    config.spec.minAvailable = 3;
    const overrides = join(up.folder, "workers.json");
    writeFileSync(overrides, JSON.stringify({ kubernetes: config }));
    const what = ["--docker-image", "host", "--entry-point", `${python} ${join(example, "launched.py")} 3000 0.2`];
    await up.run(
      "launch",
      "--queue",
      "volcano",
      "--project",
      "demo",
      "--name",
      "three-ranks",
      "--resource-args",
      overrides,
      ...what,
    );

    const page = await open(browser, up);
    await page.goto(await up.run("user", "link"));
    await page.getByRole("link", { name: "demo", exact: true }).click();
    await page.getByRole("link", { name: "three-ranks" }).click();
    await page.getByText("3 ranks on 1 node").waitFor();
    for (const [rank, label] of [
      [0, "master-0"],
      [1, "worker-0"],
      [2, "worker-1"],
    ])
      await page.getByRole("link", { name: new RegExp(`Rank ${rank}\\s*${label}.*Running`) }).waitFor();
    const chart = page.getByRole("img", { name: /^Chart of loss; last value/ });
    await chart.waitFor();
    const before = await chart.getAttribute("aria-label");
    await page.waitForFunction(
      (before) => document.querySelector('[aria-label^="Chart of loss"]')?.getAttribute("aria-label") !== before,
      before,
    );
    await page.getByRole("link", { name: /^Logs/ }).click();
    const log = page.getByRole("log");
    for (const rank of [0, 1, 2])
      await log
        .getByText(new RegExp(`rank ${rank} has done step`))
        .first()
        .waitFor();
    await page.getByLabel("Rank", { exact: true }).selectOption("worker-1");
    await log
      .getByText(/rank 2 has done step/)
      .first()
      .waitFor();
    await page.getByLabel("Follow").uncheck();
    await log.evaluate((box) => {
      box.scrollTop = 0;
    });
    await log.getByText("rank 2 of 3, the first is").waitFor();
    await page.getByRole("link", { name: "Cluster" }).click();
    await page.getByRole("list", { name: /^GPUs: / }).waitFor();
    await page.getByRole("link", { name: "three-ranks" }).click();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page
      .getByRole("list", { name: /^Timeline of/ })
      .getByText("Stopped")
      .waitFor();
    await close(page);
  } finally {
    await up.end();
  }
});
