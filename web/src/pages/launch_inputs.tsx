/** The inputs of a job as a form. They are part of the run config, whose text stays the one place that has them. */
import { useMemo } from "react";
import { parseDocument } from "yaml";
import { Job, type JobData } from "../api/generated";
import { useAsk } from "../api/live";
import { toObject } from "../documents";
import { useText } from "../text";
import { Value } from "./launch_fields";
import { type Schema, typed } from "./queue_data";

/** The part of JSON Schema that jobs bring. */
export type Inputs = Partial<Omit<Schema, "type">> & {
  type?: string;
  title?: string;
  label?: string;
  description?: string;
  placeholder?: string;
  required?: boolean;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  properties?: Record<string, Inputs>;
  items?: Inputs;
};

type Collection = NonNullable<NonNullable<NonNullable<JobData["project"]>["artifactType"]>["artifactCollection"]>;

/** The job of `entity/project/name`, with or without a version. */
export function useJob(reference: string): Collection | null {
  const [entity = "", project = "", name = ""] = reference.split("/");
  const job = name.split(":")[0] ?? "";
  const answer = useAsk(Job, { entity, project, job }, { enabled: job !== "" });
  return (job !== "" && answer.data?.project?.artifactType?.artifactCollection) || null;
}

/** What the chosen version of a job says of its run config, if it does. */
export function useInputs(reference: string): Inputs | null {
  const job = useJob(reference);
  const wanted = reference.split(":")[1] ?? "latest";
  return useMemo(() => {
    const found = job?.artifacts?.edges.find(
      ({ version, node }) => version === wanted || node.aliases.some(({ alias }) => alias === wanted),
    );
    const metadata = JSON.parse(found?.node.metadata ?? "{}") as { input_schemas?: Record<string, Inputs> } | null;
    const schema = metadata?.input_schemas?.["@wandb.config"];
    return schema?.properties ? schema : null;
  }, [job, wanted]);
}

type Props = { schema: Inputs; text: string; onText: (text: string) => void };

export function JobInputs({ schema, text, onText }: Props) {
  const t = useText();
  const values = useMemo(() => toObject(text), [text]);
  const set = (path: string[], value: unknown) => {
    const document = parseDocument(text);
    value === undefined ? document.deleteIn(path) : document.setIn(path, value);
    const left = document.toJS() as object | null;
    onText(left && Object.keys(left).length > 0 ? document.toString() : "");
  };
  return (
    <fieldset className="inputs" disabled={values === null}>
      <legend>{t.inputs}</legend>
      <Fields properties={schema.properties ?? {}} path={[]} values={values ?? {}} set={set} />
    </fieldset>
  );
}

type FieldsProps = {
  properties: Record<string, Inputs>;
  path: string[];
  values: Record<string, unknown>;
  set: (path: string[], value: unknown) => void;
};

function Fields({ properties, path, values, set }: FieldsProps) {
  return Object.entries(properties).map(([name, schema]) => {
    const own = [...path, name];
    const title = schema.title ?? schema.label ?? name;
    const value = values[name];
    if (schema.properties)
      return (
        <fieldset key={name} className="tile">
          <legend>{title}</legend>
          <Fields properties={schema.properties} path={own} values={(value ?? {}) as Record<string, unknown>} set={set} />
        </fieldset>
      );
    if (schema.type === "array" && schema.items?.enum)
      return <Choices key={name} title={title} schema={schema} value={value} onValue={(next) => set(own, next)} />;
    const plain = plainOf(schema);
    return (
      <Value
        key={name}
        name={title}
        description={schema.description ?? null}
        schema={plain}
        isRequired={schema.required === true}
        text={value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value)}
        onText={(next) => set(own, next === "" ? undefined : typed(next, plain))}
      />
    );
  });
}

/** As template variables have it; what has another type is a text. */
function plainOf({ type, minimum, maximum, exclusiveMinimum, exclusiveMaximum, ...schema }: Inputs): Schema {
  const step = type === "integer" ? 1 : 0;
  const least = minimum ?? (exclusiveMinimum === undefined ? undefined : exclusiveMinimum + step);
  const most = maximum ?? (exclusiveMaximum === undefined ? undefined : exclusiveMaximum - step);
  return {
    type: type === "integer" || type === "number" || type === "boolean" ? type : "string",
    ...(least !== undefined && { minimum: least }),
    ...(most !== undefined && { maximum: most }),
    ...(schema.enum && { enum: schema.enum }),
    ...(schema.default !== undefined && { default: schema.default }),
  };
}

type ChoicesProps = { title: string; schema: Inputs; value: unknown; onValue: (value: unknown) => void };

function Choices({ title, schema, value, onValue }: ChoicesProps) {
  const chosen = Array.isArray(value) ? (value as unknown[]) : [];
  const toggle = (option: unknown) => {
    const next = chosen.includes(option) ? chosen.filter((other) => other !== option) : [...chosen, option];
    onValue(next.length > 0 ? next : undefined);
  };
  return (
    <fieldset className="field">
      <legend>{title}</legend>
      <div className="checks">
        {(schema.items?.enum ?? []).map((option) => (
          <label key={String(option)}>
            <input type="checkbox" checked={chosen.includes(option)} onChange={() => toggle(option)} /> {String(option)}
          </label>
        ))}
      </div>
      {schema.description && <p className="hint">{schema.description}</p>}
    </fieldset>
  );
}
