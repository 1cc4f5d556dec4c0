// People and teams in a real browser: who is in what, what they see then, and how they sign in.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { makeQueue, push, startRun } from "./data.mjs";
import { close, heading, open, row, Server, signIn, startBrowser } from "./support.mjs";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([Server.start(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.end();
});

const entities = (page) => page.getByLabel("Entity").locator("option").allTextContents();

test("a team is made, somebody is added as a viewer, then a member, then taken out, and each time may do what that means", async () => {
  const { key } = await server.send("POST", "/api/v1/users", { username: "bob" });
  const admin = await open(browser, server);
  await signIn(admin, server, server.key, "/settings");
  await admin.getByLabel("Name of the new team").fill("vision");
  await admin.getByRole("button", { name: "New team" }).click();
  // A name that is not known stays, to be mended.
  await admin.getByLabel("Add somebody to vision").fill("bobby");
  await admin.getByRole("button", { name: "Add", exact: true }).click();
  await admin.getByRole("alert").waitFor();
  assert.equal(await admin.getByLabel("Add somebody to vision").inputValue(), "bobby");
  await admin.getByLabel("Add somebody to vision").fill("bob");
  await admin.getByLabel("Role", { exact: true }).selectOption("viewer");
  await admin.getByRole("button", { name: "Add", exact: true }).click();
  await admin.getByLabel("Role of bob").waitFor();
  await makeQueue(server, { entity: "vision", name: "team-queue", config: { spec: {} } });

  const bob = await open(browser, server);
  await signIn(bob, server, key, "/launch");
  assert.deepEqual(await entities(bob), ["bob", "vision"]);
  await bob.getByText("No queues yet").waitFor();
  await bob.getByLabel("Entity").selectOption("vision");
  await bob.getByRole("link", { name: /team-queue/ }).click();
  await heading(bob, "team-queue").waitFor();
  assert.equal(await bob.getByRole("button", { name: "Launch", exact: true }).count(), 0);

  await admin.getByLabel("Role of bob").selectOption("member");
  // The choice shows once the server has it.
  await admin.locator("select:has(option[value=member]:checked)").and(admin.getByLabel("Role of bob")).waitFor();
  await bob.reload();
  await bob.getByRole("button", { name: "Launch", exact: true }).first().click();
  await bob.getByRole("textbox", { name: "Image" }).fill("train:1");
  await bob.getByLabel("Project", { exact: true }).fill("shared");
  await bob.getByRole("button", { name: "Launch now" }).click();
  await row(bob, "train:1").getByText("bob").waitFor();

  await admin.getByRole("button", { name: "Take bob out of vision" }).click();
  await admin.getByLabel("Role of bob").waitFor({ state: "detached" });
  await bob.reload();
  await bob.getByText("There is no queue team-queue").waitFor();
  await close(bob);
  await close(admin);
});

test("entity and project are switched where one stands, and each shows its own", async () => {
  await server.send("POST", "/api/v1/teams", { name: "speech" });
  await startRun(server, { run: "own1", project: "own-project" });
  await startRun(server, { entity: "speech", run: "team1", project: "team-project" });
  await makeQueue(server, { entity: "speech", name: "speech-queue", config: {} });
  await push(server, { entity: "speech", queue: "speech-queue", spec: { name: "talk", docker: { docker_image: "x" } } });
  const page = await open(browser, server);
  await signIn(page, server, server.key, "/");
  const menu = page.getByRole("navigation", { name: "Main" });
  await menu.getByRole("link", { name: "own-project" }).waitFor();
  await page.getByLabel("Entity").selectOption("speech");
  await heading(page, "speech").waitFor();
  await page.getByRole("link", { name: /speech-queue/ }).waitFor();
  await menu.getByRole("link", { name: "own-project" }).waitFor({ state: "detached" });
  await menu.getByRole("link", { name: "team-project" }).click();
  await heading(page, "team-project").waitFor();
  await row(page, "team1").waitFor();
  await page.reload();
  assert.equal(await page.getByLabel("Entity").inputValue(), "speech");
  await close(page);
});

test("somebody sets a password, signs out, signs in with it, and is refused with another", async () => {
  const { key } = await server.send("POST", "/api/v1/users", { username: "dora" });
  const page = await open(browser, server);
  await signIn(page, server, key, "/settings");
  await page.getByLabel("New password").fill("a long enough secret");
  await page.getByRole("button", { name: "Set password" }).click();
  await page.getByText("The password is set.").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await heading(page, "Sign in to Volley").waitFor();
  await page.getByText("Password", { exact: true }).click();
  await page.getByLabel("User name").fill("dora");
  await page.locator("input[type=password]").fill("another long secret");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  await page.locator("input[type=password]").fill("a long enough secret");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).getByText("dora").waitFor();
  await close(page);
});
