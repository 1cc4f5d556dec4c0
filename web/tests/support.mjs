// A real `volley server` and a real browser for the tests, and the few requests by which tests make what the page shows.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const execute = promisify(execFile);
/** Generous, because machines that build are busy; a test that waits longer has found a fault. */
export const PATIENCE_MS = 60_000;
const VOLLEY = process.env.VOLLEY ?? join(import.meta.dirname, "../../target/debug/volley");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

export class Server {
  static async start() {
    const server = new Server();
    server.home = mkdtempSync(join(tmpdir(), "volley-web-"));
    await server.listen("127.0.0.1:0");
    server.key = readFileSync(join(server.home, "server/api-key"), "utf8").trim();
    return server;
  }

  async listen(address) {
    const env = { ...process.env, VOLLEY_HOME: this.home };
    this.process = spawn(VOLLEY, ["server", "--listen", address, "--user", "alice"], {
      env,
      stdio: ["ignore", "ignore", "pipe"],
    });
    const told = [];
    for await (const line of createInterface({ input: this.process.stderr })) {
      told.push(line);
      const found = /listening on (http:\/\/\S+)/.exec(line);
      if (!found) continue;
      this.url = found[1];
      this.process.stderr.resume();
      return;
    }
    throw new Error(`the server did not start:\n${told.join("\n")}`);
  }

  async stop() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGTERM");
    await ended;
  }

  /** As by the machine when its memory is at an end. */
  async kill() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await ended;
  }

  /** At the same address, with the same data. */
  async comeBack() {
    await this.listen(new URL(this.url).host);
  }

  async end() {
    await this.stop();
    rmSync(this.home, { recursive: true });
  }

  async send(method, path, body, key = this.key) {
    const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
    const response = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  }

  async graphql(query, variables = {}, key = this.key) {
    return (await this.send("POST", "/graphql", { query, variables }, key)).data;
  }
}

/** All of Volley as `volley up` starts it, with four pretended GPUs, in a home of its own. */
export class Up extends Server {
  static async start() {
    const up = new Up();
    up.folder = mkdtempSync(join(tmpdir(), "volley-up-"));
    up.home = join(up.folder, "home");
    up.env = { ...process.env, VOLLEY_HOME: up.home, KUBECONFIG: join(up.home, "kubeconfig") };
    up.others = [];
    await up.run("up", "--listen", "127.0.0.1:0", "--server-listen", "127.0.0.1:0", "--fake-gpus", "4");
    up.link = await up.run("user", "link");
    up.url = new URL(up.link).origin;
    up.key = readFileSync(join(up.home, "server/api-key"), "utf8").trim();
    return up;
  }

  /** A verb of the command line; gives what it printed. */
  async run(...words) {
    const { stdout } = await execute(VOLLEY, words, { env: this.env, timeout: 2 * PATIENCE_MS });
    return stdout.trim();
  }

  async kubectl(...words) {
    await execute("kubectl", ["--kubeconfig", join(this.home, "kubeconfig"), ...words], { timeout: PATIENCE_MS });
  }

  /** Starts an agent by the command that the page shows, on a home of its own as on another machine. */
  serve(command) {
    const [program, ...words] = command.trim().split(/\s+/);
    assert.equal(program, "volley");
    const env = { ...this.env, VOLLEY_HOME: mkdtempSync(join(this.folder, "agent-")), VOLLEY_API_KEY: this.key };
    this.others.push(spawn(VOLLEY, [...words, "-j", "4"], { env, stdio: "ignore" }));
  }

  async end() {
    for (const other of this.others) {
      if (other.exitCode !== null) continue;
      const ended = once(other, "exit");
      other.kill("SIGTERM");
      await ended;
    }
    await this.run("down", "--purge");
    rmSync(this.folder, { recursive: true });
  }
}

export async function startBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/** A window of its own; whatever the page complains about, the content policy among it, fails the test. */
export async function open(browser, server, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    locale: "en-US",
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.setDefaultNavigationTimeout(PATIENCE_MS);
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && !isExpected(message) && page.complaints.push(message.text()));
  page.on("request", (request) => {
    if (!request.url().startsWith(server.url) && !request.url().startsWith("data:"))
      page.complaints.push(`asked for ${request.url()}`);
  });
  return page;
}

/** The browser tells of every answer that is not 200, also of those that the page shows to its user. */
const isExpected = (message) => message.text().startsWith("Failed to load resource");

export async function close(page) {
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}

export async function signIn(page, server, key = server.key, path = "/launch") {
  await page.goto(server.url + path);
  await page.locator("input[type=password]").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Main" }).waitFor();
}

/** As `signIn`, without the form. */
export async function enter(page, server) {
  const answer = await page.context().request.post(`${server.url}/api/v1/session`, { data: { key: server.key } });
  assert.ok(answer.ok(), await answer.text());
}

/** A way to the server that can be cut. */
export class Wire {
  static async to(server) {
    const wire = new Wire();
    const { hostname, port } = new URL(server.url);
    wire.sockets = new Set();
    wire.listener = createServer((near) => {
      const far = connect(Number(port), hostname);
      for (const [one, other] of [
        [near, far],
        [far, near],
      ]) {
        wire.sockets.add(one);
        one.pipe(other);
        one.on("error", () => other.destroy());
        one.on("close", () => {
          wire.sockets.delete(one);
          other.destroy();
        });
      }
    });
    await wire.mend();
    wire.url = `http://127.0.0.1:${wire.listener.address().port}`;
    return wire;
  }

  /** Nothing gets through, and whatever was connected is cut off. */
  async cut() {
    this.port = this.listener.address().port;
    const closed = once(this.listener, "close");
    this.listener.close();
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  async mend() {
    this.listener.listen(this.port ?? 0, "127.0.0.1");
    await once(this.listener, "listening");
  }
}

/** Whether somebody who looks at the window sees it, without scrolling. */
export const isSeen = (locator) =>
  locator.evaluate(
    (element) =>
      new Promise((resolve) => {
        const look = new IntersectionObserver(([entry]) => {
          look.disconnect();
          resolve(entry.intersectionRatio > 0.9);
        });
        look.observe(element);
      }),
  );

export const heading = (page, name) => page.getByRole("heading", { level: 1, name, exact: true });
export const row = (page, text) => page.getByRole("row").filter({ hasText: text });

/** Fills the launch drawer with an image, from the queue's page. */
export async function launch(page, { image, project = "mnist" }) {
  await page.getByRole("button", { name: "Launch", exact: true }).first().click();
  await page.getByRole("textbox", { name: "Image" }).fill(image);
  await page.getByLabel("Project", { exact: true }).fill(project);
}

/** Pastes over what an editor holds. */
export async function write(page, label, text) {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.evaluate((text) => navigator.clipboard.writeText(text), text);
  // A drawer is over the page, which may have an editor of the same name.
  const drawer = page.getByRole("dialog");
  const place = (await drawer.count()) > 0 ? drawer : page;
  await place.getByRole("textbox", { name: label }).click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.press("ControlOrMeta+v");
}
