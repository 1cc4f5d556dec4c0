/** The config of a queue: read it, edit it, and see what an edit changes before it is saved. */
import { useMemo } from "react";
import { type QueueRow, SaveQueue } from "../api/generated";
import { useDeed } from "../api/live";
import { toText } from "../documents";
import { Button, Facts, Problem } from "../parts/basic";
import { Diff } from "../parts/diff";
import { Editor } from "../parts/editor";
import { Switch } from "../parts/form";
import { useDraft } from "../preferences";
import { go, useSearch, withSearch } from "../router";
import { useText } from "../text";
import { innerConfig, REGISTRY, resourceName } from "./queue_data";
import { ConfigFields, type ConfigForm, draftOf, submissionOf } from "./queue_form";

export default function ConfigTab({ entity, queue }: { entity: string; queue: QueueRow }) {
  const isEditing = useSearch().get("edit") !== null;
  return isEditing ? <Edit entity={entity} queue={queue} /> : <Read queue={queue} />;
}

function Read({ queue }: { queue: QueueRow }) {
  const t = useText();
  const text = useMemo(() => toText(innerConfig(queue.defaultResourceConfig)), [queue]);
  return (
    <section className="panel">
      <div className="panel-head">
        <h2>{t.configuration}</h2>
        <Button icon="code" onClick={() => go(withSearch({ edit: "" }))}>
          {t.editConfig}
        </Button>
      </div>
      <Facts
        of={[
          [t.resource, resourceName(queue.defaultResourceConfig?.resource)],
          [t.prioritisation, queue.prioritizationMode === "V0" ? t.on : t.off],
          ...(queue.defaultResourceConfig?.templateVariables ?? []).map((variable): [string, string] => [
            `{{${variable.name}}}`,
            t.constraint(JSON.parse(variable.schema)),
          ]),
        ]}
      />
      <Editor label={t.configuration} value={text} />
    </section>
  );
}

function Edit({ entity, queue }: { entity: string; queue: QueueRow }) {
  const t = useText();
  const config = queue.defaultResourceConfig;
  const saved = useMemo(() => toText(innerConfig(config)), [config]);
  const variables = useMemo(
    () => Object.fromEntries((config?.templateVariables ?? []).map((variable) => [variable.name, draftOf(variable)])),
    [config],
  );
  const first: ConfigForm & { hasPriorities: boolean } = {
    text: saved,
    language: "yaml",
    variables,
    hasPriorities: queue.prioritizationMode === "V0",
  };
  const { form, change, forget } = useDraft(`config.${queue.id}`, first);
  const save = useDeed(SaveQueue, "Queue", "Queues");
  const close = () => {
    forget();
    go(withSearch({ edit: null }), "replace");
  };
  const submission = submissionOf(form);
  const submit = () => {
    if (!submission || save.isPending) return;
    const input = {
      entityName: entity,
      projectName: REGISTRY,
      queueName: queue.name,
      resourceType: config?.resource ?? "kubernetes",
      resourceConfig: submission.config,
      templateVariables: submission.templateVariables,
      prioritizationMode: form.hasPriorities ? ("V0" as const) : ("DISABLED" as const),
      externalLinks: JSON.stringify(queue.externalLinks ?? {}),
    };
    save.mutate({ input }, { onSuccess: close });
  };
  return (
    <form
      className="panel"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <h2>{t.editConfig}</h2>
      <ConfigFields form={form} change={change} />
      <Switch
        label={t.prioritisation}
        hint={t.prioritisationHint}
        isOn={form.hasPriorities}
        onSwitch={(hasPriorities) => change({ hasPriorities })}
      />
      {form.language === "yaml" && form.text !== saved && <Diff title={t.changes} before={saved} after={form.text} />}
      <Problem error={save.error} />
      <div className="deeds end">
        <Button onClick={close}>{t.cancel}</Button>
        <Button kind="primary" type="submit" isBusy={save.isPending} disabled={!submission}>
          {t.saveConfig}
        </Button>
      </div>
    </form>
  );
}
