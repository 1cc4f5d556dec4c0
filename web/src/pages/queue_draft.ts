/** The config of a queue while it is written: what is kept of it, what is sent, and what keeps it from being sent. */
import type { QueueRow, Variable } from "../api/generated";
import { toObject, toText, variablesIn } from "../documents";
import type { Language } from "../parts/editor";
import type { Text } from "../text";
import { innerConfig, isNumeric, numberIn, type Schema, schemaOf } from "./queue_data";
import { NEW_VARIABLE, type VariableDraft } from "./templates";

export type ConfigForm = { text: string; language: Language; variables: Record<string, VariableDraft> };

/** A config that is edited, and the name that it is kept by until it is saved. */
export type EditForm = ConfigForm & { hasPriorities: boolean };
export const draftName = (queue: QueueRow): string => `config.${queue.id}`;

export const draftOf = (variable: Variable): VariableDraft => {
  const { type, minimum, maximum, enum: options, default: fallback } = schemaOf(variable);
  const text = (value: unknown) => (value === undefined || value === null ? "" : String(value));
  return {
    type,
    minimum: text(minimum),
    maximum: text(maximum),
    options: (options ?? []).map(String).join(", "),
    default: text(fallback),
    description: variable.description ?? "",
  };
};

/** Limits of an amount are numbers, too: of bytes or cores, and of seconds. */
export const hasLimits = ({ type }: VariableDraft): boolean => type !== "string" && type !== "boolean";

const listed = (text: string): string[] => (text.trim() === "" ? [] : text.split(",").map((one) => one.trim()));
const isWrong = (text: string): boolean => text.trim() !== "" && numberIn(text) === null;

/** Where a number should be and none is. An empty field sets no limit. */
export function wrongNumbers(draft: VariableDraft): ("minimum" | "maximum" | "options" | "default")[] {
  const limits = (["minimum", "maximum"] as const).filter((name) => hasLimits(draft) && isWrong(draft[name]));
  if (!isNumeric(draft)) return limits;
  const isListWrong = listed(draft.options).some((option) => numberIn(option) === null);
  return [...limits, ...(isListWrong ? ["options" as const] : []), ...(isWrong(draft.default) ? ["default" as const] : [])];
}

type Declared = { schema: Schema; description?: string | null };
/** All that is set of a queue. */
export type Settings = { config: object; variables: Record<string, Declared>; hasPriorities: boolean };

/** What a form comes to, or the name of the sentence that says why it cannot be sent. */
export function settingsOf(form: EditForm): { settings: Settings; obstacle?: never } | { settings: null; obstacle: Obstacle } {
  const config = toObject(form.text);
  if (!config) return { settings: null, obstacle: "unreadable" };
  const drafts = [...variablesIn(config)].map((name) => [name, form.variables[name] ?? NEW_VARIABLE] as const);
  if (drafts.some(([, draft]) => wrongNumbers(draft).length > 0)) return { settings: null, obstacle: "wrongNumber" };
  const variables = Object.fromEntries(drafts.map(([name, draft]) => [name, declared(draft)]));
  return { settings: { config, variables, hasPriorities: form.hasPriorities } };
}
type Obstacle = "unreadable" | "wrongNumber";

function declared(draft: VariableDraft): Declared {
  const schema: Schema = { type: draft.type };
  const [minimum, maximum] = hasLimits(draft) ? [numberIn(draft.minimum), numberIn(draft.maximum)] : [null, null];
  if (minimum !== null) schema.minimum = minimum;
  if (maximum !== null) schema.maximum = maximum;
  const options = draft.type === "boolean" ? [] : listed(draft.options);
  if (options.length > 0) schema.enum = isNumeric(draft) ? options.map(numberIn) : options;
  if (draft.default.trim() !== "")
    schema.default = isNumeric(draft)
      ? numberIn(draft.default)
      : draft.type === "boolean"
        ? draft.default === "true"
        : draft.default;
  return { schema, ...(draft.description === "" ? {} : { description: draft.description }) };
}

/** What the server is sent. */
export const submissionOf = ({ config, variables }: Settings) => ({
  config: JSON.stringify(config),
  templateVariables: JSON.stringify(variables),
});

/** A queue that is not there yet, as the preview asks for it. */
export const draftQueue = (settings: Settings | null, resource: string): object | null =>
  settings && {
    config: {
      resource,
      config: settings.config,
      template_variables: settings.variables,
      prioritization: settings.hasPriorities,
    },
  };

/** What is set of a queue now. */
export function settingsNow({ defaultResourceConfig: config, prioritizationMode }: QueueRow): Settings {
  const told = (config?.templateVariables ?? []).map((one): [string, Declared] => [one.name, { ...one, schema: schemaOf(one) }]);
  return {
    config: innerConfig(config) as object,
    variables: Object.fromEntries(told),
    hasPriorities: prioritizationMode === "V0",
  };
}

/** All of it as one text, in which changes can be seen. */
export function settingsText(t: Text, { config, variables, hasPriorities }: Settings): string {
  const sorted = Object.entries(variables).sort(([one], [other]) => (one < other ? -1 : 1));
  const told = sorted.map(([name, { schema, description }]) => {
    const fallback = schema.default !== undefined && `${t.default} ${schema.default}`;
    return `# {{${name}}}: ${[t.constraint(schema), fallback, description].filter(Boolean).join(" · ")}`;
  });
  return [`# ${t.prioritisation}: ${hasPriorities ? t.on : t.off}`, ...told, toText(config)].join("\n");
}
