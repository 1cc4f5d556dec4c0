// The tutorials' stories on a whole `volley up`: what is clicked on the page really runs, on pretended GPUs, and really ends.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, heading, launch, open, PATIENCE_MS, row, startBrowser, Up, write } from "./support.mjs";

let up;
let browser;
before(async () => {
  [up, browser] = await Promise.all([Up.start(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await up?.end();
});

/** The tutorial's config; its four processors are more than a small machine has. */
const GPU_CONFIG = `spec:
  template:
    spec:
      containers:
        - image: \${image_uri}
          resources:
            limits:
              cpu: 200m
              memory: 64Mi
              nvidia.com/gpu: '{{gpus}}'
      restartPolicy: Never
  backoffLimit: 0
`;
const commandOf = (page) => page.locator("pre", { hasText: "volley agent" }).textContent();
const tab = (page, name) => page.getByRole("link", { name: new RegExp(`^${name}`) });

test("a GPU queue is made, refuses five GPUs, runs with two, and what runs is stopped", {
  timeout: 5 * PATIENCE_MS,
}, async () => {
  const page = await open(browser, up);
  await page.goto(up.link);
  await page.getByRole("link", { name: "Queues", exact: true }).click();
  await page.getByRole("button", { name: "Create queue" }).first().click();
  await page.getByLabel("Queue name").fill("minikube");
  await write(page, "Configuration", GPU_CONFIG);
  await page.getByText("1 template variable found").waitFor();
  await page.getByRole("button", { name: "Parse configuration" }).click();
  await page.getByLabel("Type").selectOption("integer");
  await page.getByLabel("Minimum").fill("1");
  await page.getByLabel("Maximum").fill("4");
  await page.getByLabel("Default").fill("1");
  await page.getByRole("textbox", { name: "What would be submitted" }).getByText("nvidia.com/gpu: 1").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Create queue" }).click();
  await heading(page, "minikube").waitFor();
  up.serve(await commandOf(page));
  await page.getByRole("table", { name: "Agents" }).waitFor();
  await page.locator("header").getByText("Active").waitFor();

  await launch(page, { image: "host", project: "gpus" });
  await page.getByLabel("gpus").fill("5");
  await page.getByText("The queue does not allow this value").waitFor();
  await page.getByRole("button", { name: "Launch now" }).click();
  await page.getByRole("alert").getByText("gpus").waitFor();
  await page.getByLabel("gpus").fill("2");
  await page.getByLabel("Entry point").fill("sh -c 'echo seen: $NVIDIA_VISIBLE_DEVICES; sleep 600'");
  await page.getByLabel("Run name").fill("two-gpus");
  await page.getByRole("textbox", { name: "What would be submitted" }).getByText("nvidia.com/gpu: 2").waitFor();
  await page.getByRole("button", { name: "Launch now" }).click();
  const item = row(page, "two-gpus");
  await item.getByText("gpus 2").waitFor();
  await item.getByText("Running").waitFor();

  await item.getByRole("link").click();
  await heading(page, "two-gpus").waitFor();
  await tab(page, "Logs").click();
  await page.getByRole("log").getByText("seen: ").waitFor();
  await page.getByRole("link", { name: "Queues", exact: true }).click();
  await page.getByRole("link", { name: /minikube/ }).click();
  await item.getByRole("button", { name: "Stop two-gpus" }).click();
  await item.getByText("Stopped", { exact: true }).waitFor();
  await item.getByRole("button", { name: "Stop two-gpus" }).waitFor({ state: "detached" });
  await close(page);
});

test("a Volcano queue is made, launched with more workers, and launched again", { timeout: 5 * PATIENCE_MS }, async () => {
  const page = await open(browser, up);
  await page.context().request.post(`${up.url}/api/v1/session`, { data: { key: up.key } });
  await page.goto(`${up.url}/launch?open=queue`);
  await page.getByRole("radio", { name: "Volcano + PyTorch" }).check();
  await page.getByLabel("Queue name").fill("volcano");
  await page.getByText("nothing wrong was found").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Create queue" }).click();
  await heading(page, "volcano").waitFor();
  up.serve(await commandOf(page));
  await page.getByRole("table", { name: "Agents" }).waitFor();

  await launch(page, { image: "host", project: "ranks" });
  await page.getByLabel("Entry point").fill("sh -c 'echo rank $RANK of $WORLD_SIZE; sleep 2'");
  await page.getByLabel("Run name").fill("three-ranks");
  await page.getByText("Resource config", { exact: true }).click();
  const entity = new URL(page.url()).pathname.split("/")[2];
  const [now] = await up.send("GET", `/api/v1/queues/${entity}/volcano/history`);
  now.config.spec.minAvailable = 3;
  now.config.spec.tasks[1].replicas = 2;
  await write(page, "Resource config", JSON.stringify(now.config, null, 2));
  await page.getByRole("button", { name: "Launch now" }).click();
  const item = row(page, "three-ranks");
  await item.getByText("Finished").waitFor();
  await item.getByRole("link").click();
  await heading(page, "three-ranks").waitFor();
  await tab(page, "Logs").click();
  for (const rank of [0, 1, 2]) await page.getByRole("log").getByText(`rank ${rank} of 3`).waitFor();

  await page.getByRole("button", { name: "Launch again" }).click();
  const drawer = page.getByRole("dialog");
  assert.equal(await drawer.getByLabel("Run name").inputValue(), "three-ranks");
  await drawer.getByRole("textbox", { name: "Resource config" }).getByText("minAvailable: 3").waitFor();
  await drawer.getByLabel("Run name").fill("three-again");
  await drawer.getByRole("button", { name: "Launch now" }).click();
  await row(page, "three-again").getByText("Finished").waitFor();
  await tab(page, "Monitor").click();
  await page.getByText("How long items waited").waitFor();
  await page.getByRole("table", { name: "By author" }).waitFor();
  await close(page);
});
