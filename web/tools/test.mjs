// Runs the tests, a file at a time. What cargo-nextest does for the program's own tests holds here, too (.config/nextest.toml):
// a file that passes at its second try is told as FLAKY, a defect to mend, which must not hide what the others say.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

const passes = (file) => spawnSync(process.execPath, ["--test", `tests/${file}`], { stdio: "inherit" }).status === 0;

const failed = [];
for (const file of readdirSync("tests").filter((name) => name.endsWith(".test.mjs"))) {
  if (passes(file)) continue;
  if (passes(file)) console.error(`FLAKY ${file}: it failed, then passed`);
  else failed.push(file);
}
if (failed.length > 0) {
  console.error(`failed twice: ${failed.join(", ")}`);
  process.exitCode = 1;
}
