// What the page reckons by itself: words, variables, forms, order, charts' figures. No browser, no server.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openSource } from "./source.mjs";

let source;
before(async () => {
  source = await openSource();
});
after(() => source?.end());

test("words are read as a shell reads them", async () => {
  const { words } = await source.load("words.ts");
  for (const [text, wanted] of [
    ["", []],
    ["  ", []],
    ["--epochs 10", ["--epochs", "10"]],
    ['--prompt="a cat" --n 3', ["--prompt=a cat", "--n", "3"]],
    [`--a='x y'"z"w`, ["--a=x yzw"]],
    ["'it'\\''s a cat'", ["it's a cat"]],
    ['"say \\"hi\\" for \\$5, \\\\ and \\d"', ['say "hi" for $5, \\ and \\d']],
    ["a\\ b c\\\\", ["a b", "c\\"]],
    ["'' \"\" x", ["", "", "x"]],
    ["it's", ["it's"]],
  ])
    assert.deepEqual(words(text), wanted, text);
});

test("words that are written are read as the same words, whatever is in them", async () => {
  const { joined, words } = await source.load("words.ts");
  const pieces = ["", "a", " ", "'", '"', "\\", "$", "`", "\n", "\t", "é", "猫", "🐈", "--x=", "#", "*", "\u00a0", "&&"];
  // The same lists every time: a linear congruential generator.
  let seed = 7;
  const next = (below) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed % below;
  };
  const word = () => Array.from({ length: next(6) }, () => pieces[next(pieces.length)]).join("");
  const lists = [[""], ["", ""], ["it's a cat"], ...Array.from({ length: 2000 }, () => Array.from({ length: next(5) }, word))];
  for (const list of lists) assert.deepEqual(words(joined(list)), list);
});

test("variables are found in names and in sums, as the server finds them", async () => {
  const { variablesIn } = await source.load("documents.ts");
  for (const [text, wanted] of [
    ["{{gpus}} and {{ gpus }}", ["gpus"]],
    ["{{= workers + 1}}", ["workers"]],
    ["{{=(1+workers)*per_node - 2}} {{n-1}}", ["workers", "per_node", "n-1"]],
    ["{{{{name}}", []],
    ["{{{name}}", []],
    ["{{ a b }} {{c}}", ["c"]],
    ["{{ {{x}}", ["x"]],
    ["{{= 12 + 3}}", []],
    ["{{", []],
  ])
    assert.deepEqual([...variablesIn({ spec: [text] })], wanted, text);
});

const variable = (some) => ({ type: "integer", minimum: "", maximum: "", options: "", default: "", description: "", ...some });
const form = (some) => ({
  text: "n: '{{n}}'",
  language: "yaml",
  variables: { n: variable(some) },
  hasPriorities: false,
});

test("a limit that is no number is told, and never sent as none", async () => {
  const { settingsOf, wrongNumbers } = await source.load("pages/queue_draft.ts");
  for (const name of ["minimum", "maximum", "default"])
    for (const text of ["four", "1,5", "1 2", "NaN", "Infinity"]) {
      assert.deepEqual(wrongNumbers(variable({ [name]: text })), [name], text);
      assert.deepEqual(settingsOf(form({ [name]: text })), { settings: null, obstacle: "wrongNumber" });
    }
  assert.deepEqual(wrongNumbers(variable({ type: "string", default: "four" })), []);
  assert.equal(settingsOf({ ...form({}), text: "a: [" }).obstacle, "unreadable");
  // Digits as East Asian keyboards write them, too.
  const { settings } = settingsOf(form({ minimum: "１", maximum: " 4 ", default: "－２" }));
  assert.deepEqual(settings.variables, { n: { schema: { type: "integer", minimum: 1, maximum: 4, default: -2 } } });
});

test("all that is set of a queue is in the text in which changes are seen, in the page's language", async () => {
  const { settingsOf, settingsText } = await source.load("pages/queue_draft.ts");
  const { en } = await source.load("text/en.ts");
  const { ko } = await source.load("text/ko.ts");
  const text = (t, some, rest = {}) => settingsText(t, settingsOf({ ...form(some), ...rest }).settings);
  const first = text(en, { maximum: "4" });
  assert.match(first, /n: "\{\{n\}\}"/);
  for (const other of [
    text(en, { maximum: "5" }),
    text(en, { maximum: "4", default: "2" }),
    text(en, { maximum: "4", description: "GPUs" }),
    text(en, { maximum: "4" }, { hasPriorities: true }),
  ])
    assert.notEqual(other, first);
  assert.equal(text(en, { maximum: "4" }, { text: '{"n": "{{n}}"}', language: "json" }), first);
  assert.match(text(ko, {}, { hasPriorities: true }), /# 우선순위: 켜짐/);
});

test("a draft belongs to its entity and project; a queue that is gone is not the chosen one", async () => {
  const { draftName, queueOf } = await source.load("pages/launch_form.ts");
  const from = { queue: null, item: null, job: "a/b/train:v1", run: null };
  const names = [
    ["alice", "mnist"],
    ["alice", "cifar"],
    ["vision", "mnist"],
    ["alice", null],
  ].map(([entity, project]) => draftName(entity, project, from));
  assert.equal(new Set(names).size, names.length);
  const queues = [
    { name: "looked-at", maySubmit: false },
    { name: "one", maySubmit: true },
    { name: "two", maySubmit: true },
  ];
  assert.equal(queueOf(queues, "two").name, "two");
  assert.equal(queueOf(queues, "gone").name, "one");
  assert.equal(queueOf(queues, "").name, "one");
  assert.equal(queueOf(queues.slice(0, 1), "gone"), undefined);
});

test("launched again, a run brings its own config where the launch overrode none", async () => {
  const { launched } = await source.load("pages/launch_form.ts");
  const { plainConfig } = await source.load("pages/run_data.ts");
  const filled = { runConfig: "lr: 0.1\n", project: "mnist" };
  const item = (spec) => ({ queue: "gpu", spec, values: null, priority: null });
  assert.equal(launched(item({ overrides: { args: ["it's a cat"] } }), filled).runConfig, "lr: 0.1\n");
  assert.equal(launched(item({ overrides: { args: ["it's a cat"] } }), filled).args, "'it'\\''s a cat'");
  assert.equal(launched(item({ overrides: { run_config: {} } }), filled).runConfig, "lr: 0.1\n");
  assert.equal(launched(item({ overrides: { run_config: { lr: 0.5 } } }), filled).runConfig, "lr: 0.5\n");
  const config = JSON.stringify({ _wandb: { value: { t: 1 } }, lr: { value: 0.1 }, seed: { value: null } });
  assert.deepEqual(plainConfig(config), { lr: 0.1, seed: null });
});

test("rows without a value come last, whichever way a table is sorted", async () => {
  const { arrange } = await source.load("parts/table.tsx");
  const { durationOf } = await source.load("pages/queue_data.ts");
  const at = (second) => new Date(second * 1000).toISOString();
  const rows = [
    { id: "waits", startedAt: null, endedAt: null },
    { id: "long", startedAt: at(0), endedAt: at(90) },
    { id: "runs", startedAt: at(40), endedAt: null },
    { id: "short", startedAt: at(50), endedAt: at(55) },
  ];
  const columns = [{ title: "Duration", show: () => null, by: (row) => durationOf(row, 100_000) }];
  const sorted = (sign) => arrange(rows, columns, { column: 0, sign }, undefined, "").map(({ id }) => id);
  assert.deepEqual(sorted(1), ["short", "runs", "long", "waits"]);
  assert.deepEqual(sorted(-1), ["long", "runs", "short", "waits"]);
});

test("following ends where somebody scrolls away from the end, and begins where they scroll to it", async () => {
  const { isFollowed } = await source.load("parts/follow.ts");
  const place = (scrollTop) => ({ scrollTop, scrollHeight: 1000, clientHeight: 200 });
  assert.equal(isFollowed(800, place(700)), false);
  assert.equal(isFollowed(700, place(600)), false);
  assert.equal(isFollowed(700, place(750)), null);
  assert.equal(isFollowed(700, place(799.5)), true);
  // The page's own scroll, and what shrinks: another rank has fewer lines.
  assert.equal(isFollowed(800, place(800)), null);
  assert.equal(isFollowed(5000, place(800)), null);
});

test("under the cursor is each line's nearest value, and none where it has none", async () => {
  const { nearest } = await source.load("parts/figures.ts");
  const line = [undefined, 1, undefined, null, undefined, 2, undefined];
  assert.deepEqual(
    line.map((_, at) => nearest(line, at)),
    [null, 1, 1, 1, 5, 5, null],
  );
});

test("figures have their units, and times their language", async () => {
  const { clockTicks, figure, placeText } = await source.load("parts/figures.ts");
  const { durationText } = await source.load("parts/basic.tsx");
  const { unitOf } = await source.load("pages/system_units.ts");
  const [{ en }, { ko }, { zh }] = await Promise.all(["en", "ko", "zh"].map((name) => source.load(`text/${name}.ts`)));
  const told = (name, value) => figure(value * unitOf(name).size, unitOf(name).unit);
  assert.equal(told("proc.memory.rssMB", 1536), "1.5 GiB");
  assert.equal(told("network.sent", 2048), "2.0 KiB");
  assert.equal(told("gpu.memoryAllocatedBytes", 0), "0 B");
  assert.equal(told("gpu.gpu", 88), "88 %");
  assert.equal(told("gpu.powerWatts", 650), "650 W");
  assert.equal(told("proc.cpu.threads", 12), "12");
  assert.equal(figure(null, "%"), "–");
  assert.equal(placeText(en, "step", 1_234_567), "1,234,567");
  assert.equal(placeText(en, "elapsed", 200), "3m 20s");
  assert.equal(durationText(ko, 3900), "1시간 05분");
  assert.equal(durationText(zh, 0.4, true), "0.4秒");
  const afternoon = new Date(2026, 0, 31, 15, 30).getTime() / 1000;
  const [first, second, later] = clockTicks("ko", [afternoon, afternoon + 600, afternoon + 86_400], 600);
  assert.match(first, /^15:30\n1월 31일$/);
  assert.equal(second, "15:40");
  assert.match(later, /^15:30\n2월 1일$/);
  assert.deepEqual(clockTicks("en", [afternoon], 2 * 86_400), ["Jan 31"]);
});

test("a run keeps its colour where others have nothing to show, and a label where it has no name", async () => {
  const { linesByKey } = await source.load("pages/run_charts.tsx");
  const { nameOf } = await source.load("pages/run_data.ts");
  const rows = [{ _step: 0, loss: 1 }];
  const answers = [
    { name: "one", lists: [[]] },
    { name: nameOf({ displayName: "", name: "two" }), lists: [rows] },
  ];
  const [line] = linesByKey(answers, ["loss"], "_step").get("loss");
  assert.deepEqual([line.label, line.colour], ["two", 1]);
});

test("readers of every language are told what each finding of the checker is about", async () => {
  const folder = join(import.meta.dirname, "../../crates/plan/src/check");
  const files = readdirSync(folder).filter((name) => name.endsWith(".rs"));
  const found = files.flatMap((name) => readFileSync(join(folder, name), "utf8").match(/"G-\d\d"/g) ?? []);
  const codes = [...new Set(found.map((code) => JSON.parse(code)))].sort();
  assert.ok(codes.length > 25, String(codes));
  const { koRules, zhRules } = await source.load("text/rules.ts");
  for (const rules of [koRules, zhRules]) assert.deepEqual(Object.keys(rules), codes);
});
