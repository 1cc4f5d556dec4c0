/** The config of a queue: read it, edit it and see what an edit changes before it is saved, and look up what it was before. */
import { useMemo } from "react";
import { type QueueRow, SaveQueue } from "../api/generated";
import { useDeed } from "../api/live";
import { toText } from "../documents";
import { Button, Facts, Problem } from "../parts/basic";
import { Diff } from "../parts/diff";
import { Drawer } from "../parts/drawer";
import { Editor } from "../parts/editor";
import { Switch } from "../parts/form";
import { useDraft } from "../preferences";
import { go, useSearch, withSearch } from "../router";
import { useText } from "../text";
import { Preview } from "./preview";
import { innerConfig, REGISTRY, resourceName } from "./queue_data";
import { ConfigFields, draftName, draftOf, draftQueue, type EditForm, submissionOf } from "./queue_form";
import { History } from "./queue_history";

export default function ConfigTab({ entity, queue }: { entity: string; queue: QueueRow }) {
  const isEditing = useSearch().get("edit") !== null;
  return (
    <>
      <Read queue={queue} />
      <History entity={entity} queue={queue} />
      {isEditing && queue.mayManage && <Edit entity={entity} queue={queue} />}
    </>
  );
}

function Read({ queue }: { queue: QueueRow }) {
  const t = useText();
  const text = useMemo(() => toText(innerConfig(queue.defaultResourceConfig)), [queue]);
  return (
    <section className="panel">
      <div className="panel-head">
        <h2>{t.configuration}</h2>
        {queue.mayManage && (
          <Button icon="code" onClick={() => go(withSearch({ edit: "" }))}>
            {t.editConfig}
          </Button>
        )}
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
  const resource = config?.resource ?? "kubernetes";
  const saved = useMemo(() => toText(innerConfig(config)), [config]);
  const variables = useMemo(
    () => Object.fromEntries((config?.templateVariables ?? []).map((variable) => [variable.name, draftOf(variable)])),
    [config],
  );
  const first: EditForm = { text: saved, language: "yaml", variables, hasPriorities: queue.prioritizationMode === "V0" };
  const { form, change, forget } = useDraft(draftName(queue), first);
  const save = useDeed(SaveQueue, "Queue", "Queues", "History");
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
      resourceType: resource,
      resourceConfig: submission.config,
      templateVariables: submission.templateVariables,
      prioritizationMode: form.hasPriorities ? ("V0" as const) : ("DISABLED" as const),
      externalLinks: JSON.stringify(queue.externalLinks ?? {}),
    };
    save.mutate({ input }, { onSuccess: close });
  };
  const footer = (
    <>
      <Button onClick={close}>{t.cancel}</Button>
      <Button kind="primary" type="submit" form="edit-queue" isBusy={save.isPending} disabled={!submission}>
        {t.saveConfig}
      </Button>
    </>
  );
  const isOther = form.language === "yaml" && form.text !== saved;
  return (
    <Drawer
      title={`${t.editConfig} · ${queue.name}`}
      onClose={close}
      footer={footer}
      aside={<Preview wanted={draftQueue(form, resource, form.hasPriorities)} hint={t.previewOfQueue} />}
    >
      <form
        id="edit-queue"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <ConfigFields form={form} resource={resource} change={change} />
        <Switch
          label={t.prioritisation}
          hint={t.prioritisationHint}
          isOn={form.hasPriorities}
          onSwitch={(hasPriorities) => change({ hasPriorities })}
        />
        {isOther && <Diff title={t.changes} before={saved} after={form.text} />}
        <Problem error={save.error} />
      </form>
    </Drawer>
  );
}
