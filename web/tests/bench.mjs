// `make bench`: what the page costs, in a real browser against a real server. bench/README.md says what each figure means.
import { curve, makeQueue, push, startRun, stream } from "./data.mjs";
import { open, Server, signIn, startBrowser } from "./support.mjs";

const ITEMS = 10_000;
const LINES = 1_000_000;
const EVENTS = 30;
const UPDATES = 2000;
const POINTS = 100_000;
/** Posts of a live run; a client posts about once in two seconds, so this is a quarter of an hour. */
const POSTS = 450;

const tell = (name, value, unit, budget) =>
  console.log(`${name.padEnd(52)} ${String(value).padStart(10)} ${unit.padEnd(5)} budget ${budget}`);
const median = (values) => [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)];

/** The longest task while something is done. */
async function longestWhile(page, work) {
  await page.evaluate(() => {
    globalThis.longest = 0;
    globalThis.watcher = new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) globalThis.longest = Math.max(globalThis.longest, duration);
    });
    globalThis.watcher.observe({ type: "longtask" });
  });
  await work();
  return page.evaluate(() => Math.round(globalThis.longest));
}

/** The longest task while something scrolls from end to end. */
async function longestTask(page, selector) {
  return page.evaluate(async (selector) => {
    let longest = 0;
    const watcher = new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) longest = Math.max(longest, duration);
    });
    watcher.observe({ type: "longtask" });
    const box = selector ? document.querySelector(selector) : document.documentElement;
    for (let part = 0; part <= 200; part++) {
      box.scrollTop = (box.scrollHeight * part) / 200;
      await new Promise(requestAnimationFrame);
    }
    await new Promise((done) => setTimeout(done, 200));
    watcher.disconnect();
    return Math.round(longest);
  }, selector);
}

const server = await Server.start();
const browser = await startBrowser();
try {
  const page = await open(browser, server);
  const scripts = [];
  page.on("response", (response) => response.request().resourceType() === "script" && scripts.push(response.request()));
  await makeQueue(server, { name: "bench", config: {} });
  await signIn(page, server);
  await page.getByText("bench").first().waitFor();
  const sizes = await Promise.all(scripts.map((script) => script.sizes()));
  const bytes = sizes.reduce((sum, { responseBodySize }) => sum + responseBodySize, 0);
  tell("first load, compressed script", Math.round(bytes / 1000), "kB", "≤ 250");
  const began = Date.now();
  await page.goto(`${server.url}/launch`);
  await page.getByText("bench").first().waitFor();
  tell("open the page until its queues are shown", Date.now() - began, "ms", "≤ 1000");

  await page.goto(`${server.url}/launch/alice/bench`);
  await page.getByText("Nothing was launched yet").waitFor();
  const delays = [];
  for (let event = 0; event < EVENTS; event++) {
    const seen = page.getByText(`event-${event}`, { exact: true }).waitFor();
    await push(server, { queue: "bench", spec: { name: `event-${event}`, docker: { docker_image: "x" } } });
    const at = Date.now();
    await seen;
    delays.push(Date.now() - at);
  }
  tell("submitted by somebody until shown, median", median(delays), "ms", "≤ 200");

  for (let done = 0; done < ITEMS; done += 100) {
    await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        push(server, { queue: "bench", spec: { name: `item-${done + index}`, docker: { docker_image: "x" } } }),
      ),
    );
  }
  await page.reload();
  await page.getByRole("table").waitFor();
  tell(`longest task, scrolling a queue of ${ITEMS} items`, await longestTask(page, null), "ms", "≤ 100");

  await startRun(server, { run: "long" });
  for (let at = 0; at < LINES; at += 20_000) {
    await stream(server, {
      run: "long",
      logs: Array.from({ length: 20_000 }, (_, index) => `step ${at + index} loss 0.1234 accuracy 0.9876`),
      at: { logs: at },
    });
  }
  await page.goto(`${server.url}/alice/mnist/runs/long/logs`);
  await page.getByRole("log").getByText("step").first().waitFor();
  await page.getByLabel("Follow").uncheck();
  tell(`longest task, scrolling a log of ${LINES} lines`, await longestTask(page, ".log"), "ms", "≤ 100");

  await startRun(server, { run: "points" });
  for (let at = 0; at < POINTS; at += 5000)
    await stream(server, { run: "points", history: curve(5000, 1, at), at: { history: at } });
  await page.goto(`${server.url}/alice/mnist/runs/points/charts`);
  const chart = page.getByRole("img", { name: /^Chart of loss; last value/ });
  await chart.waitFor();
  const live = await longestWhile(page, async () => {
    for (let post = 0; post < 20; post++) {
      const before = await chart.getAttribute("aria-label");
      await stream(server, {
        run: "points",
        history: curve(50, post + 2, POINTS + 50 * post),
        at: { history: POINTS + 50 * post },
      });
      await page.waitForFunction(
        (before) => document.querySelector('[aria-label^="Chart of loss"]')?.getAttribute("aria-label") !== before,
        before,
      );
    }
  });
  tell(`longest task, live updates of ${POINTS} points`, live, "ms", "≤ 100");

  const devtools = await page.context().newCDPSession(page);
  const heap = async () => {
    await devtools.send("HeapProfiler.collectGarbage");
    return (await devtools.send("Runtime.getHeapUsage")).usedSize / 1e6;
  };
  await makeQueue(server, { name: "churn", config: {} });
  await page.goto(`${server.url}/launch/alice/churn`);
  const churn = async (count) => {
    for (let update = 0; update < count; update++) await makeQueue(server, { name: "churn", config: { update } });
  };
  await churn(200);
  const before = await heap();
  await churn(UPDATES);
  tell(`memory grown over ${UPDATES} live updates`, ((await heap()) - before).toFixed(1), "MB", "about 0");

  await startRun(server, { run: "hour" });
  const post = (number) =>
    stream(server, {
      run: "hour",
      history: curve(10, 1, 10 * number),
      logs: Array.from({ length: 20 }, (_, line) => `step ${20 * number + line}`),
      at: { history: 10 * number, logs: 20 * number },
    });
  await post(0);
  await page.goto(`${server.url}/alice/mnist/runs/hour/logs`);
  await page.getByRole("log").getByText("step 19").waitFor();
  const posts = async (from, to) => {
    for (let number = from; number < to; number++) await post(number);
    await page
      .getByRole("log")
      .getByText(`step ${20 * to - 1}`)
      .waitFor();
  };
  await posts(1, 50);
  const early = await heap();
  await posts(50, POSTS);
  tell(`memory grown over ${POSTS - 50} posts of a run that is followed`, ((await heap()) - early).toFixed(1), "MB", "about 0");
} finally {
  await browser.close();
  await server.end();
}
