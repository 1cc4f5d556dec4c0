// Makes `src/api/generated.ts`: for every operation in `src/api/operations.graphql` its text, and the types of what it takes and
// gives, by the server's own schema. An operation that the schema does not know, or knows otherwise, ends the build here.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  buildSchema,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isObjectType,
  isScalarType,
  parse,
  print,
  typeFromAST,
  validate,
} from "graphql";

const web = join(import.meta.dirname, "..");
const schema = buildSchema(readFileSync(join(web, "../crates/server/schema.graphql"), "utf8"));
const document = parse(readFileSync(join(web, "src/api/operations.graphql"), "utf8"));
const problems = validate(schema, document);
if (problems.length > 0) {
  for (const problem of problems) console.error(`operations.graphql:${problem.locations?.[0]?.line}: ${problem.message}`);
  process.exit(1);
}

/** JSON is whatever somebody stored: what reads it must look before it trusts. */
const scalars = {
  ID: "string",
  String: "string",
  Int: "number",
  Float: "number",
  Boolean: "boolean",
  Int64: "number",
  DateTime: "string",
  JSONString: "string",
  JSON: "unknown",
  Duration: "number",
};
const inputs = new Set();
const fragments = new Map();
for (const part of document.definitions) if (part.kind === "FragmentDefinition") fragments.set(part.name.value, part);

const named = (type) => {
  if (isScalarType(type)) return scalars[type.name];
  if (isEnumType(type))
    return type
      .getValues()
      .map((value) => JSON.stringify(value.name))
      .join(" | ");
  if (isInputObjectType(type)) inputs.add(type);
  return type.name;
};
const wrap = (type, inner) => {
  if (isNonNullType(type)) return bare(type.ofType, inner);
  return `${bare(type, inner)} | null`;
};
const bare = (type, inner) => (isListType(type) ? `Array<${wrap(type.ofType, inner)}>` : inner);

const selection = (type, set) => {
  const fields = set.selections.flatMap((one) => {
    if (one.kind === "FragmentSpread") return selection(type, fragments.get(one.name.value).selectionSet);
    if (one.kind === "InlineFragment") throw new Error("inline fragments are not used; add them here when they are");
    const key = one.alias?.value ?? one.name.value;
    const field = type.getFields()[one.name.value];
    const leaf = getNamedType(field.type);
    const inner = one.selectionSet ? `{ ${selection(leaf, one.selectionSet).join("; ")} }` : `(${named(leaf)})`;
    return [`${key}: ${wrap(field.type, inner)}`];
  });
  return fields;
};
const member = (name, type) => `${name}${isNonNullType(type) ? "" : "?"}: ${wrap(type, `(${named(getNamedType(type))})`)}`;

const spread = (node, found = new Set()) => {
  for (const one of node.selectionSet?.selections ?? []) {
    if (one.kind === "FragmentSpread" && !found.has(one.name.value)) {
      found.add(one.name.value);
      spread(fragments.get(one.name.value), found);
    } else spread(one, found);
  }
  return found;
};

const out = [
  "// Made by tools/generate.mjs from operations.graphql and the server's schema.",
  'import type { Operation } from "./client";',
  "",
];
for (const part of document.definitions) {
  const name = part.name.value;
  if (part.kind === "FragmentDefinition") {
    const type = schema.getType(part.typeCondition.name.value);
    out.push(`export type ${name} = { ${selection(type, part.selectionSet).join("; ")} };`);
    continue;
  }
  const root = schema.getRootType(part.operation);
  if (!isObjectType(root)) throw new Error(`no ${part.operation}`);
  const variables = part.variableDefinitions.map((one) => member(one.variable.name.value, typeFromAST(schema, one.type)));
  const text = [part, ...[...spread(part)].map((each) => fragments.get(each))].map(print).join("\n");
  out.push(`export type ${name}Data = { ${selection(root, part.selectionSet).join("; ")} };`);
  out.push(`export type ${name}Variables = { ${variables.join("; ")} };`);
  out.push(
    `export const ${name}: Operation<${name}Data, ${name}Variables> = { name: "${name}", text: ${JSON.stringify(text)} };`,
  );
}
// A Set grows while it is walked: inputs lead to further inputs.
for (const input of inputs) {
  const fields = Object.values(input.getFields()).map((field) => member(field.name, field.type));
  out.push(`export type ${input.name} = { ${fields.join("; ")} };`);
}
writeFileSync(join(web, "src/api/generated.ts"), `${out.join("\n")}\n`);
