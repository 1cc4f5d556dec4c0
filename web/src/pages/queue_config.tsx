/** The config of a queue: read it, edit it and see what an edit changes before it is saved, and look up what it was before. */
import { useMemo, useState } from "react";
import { type QueueRow, SaveQueue } from "../api/generated";
import { useDeed } from "../api/live";
import { toText } from "../documents";
import { Button, Facts, Problem } from "../parts/basic";
import { Diff } from "../parts/diff";
import { Drawer, StartOver } from "../parts/drawer";
import { Editor } from "../parts/editor";
import { Switch } from "../parts/form";
import { useDraft } from "../preferences";
import { go, useSearch, withSearch } from "../router";
import { useText } from "../text";
import { Preview } from "./preview";
import { innerConfig, REGISTRY, resourceName } from "./queue_data";
import {
  draftName,
  draftOf,
  draftQueue,
  type EditForm,
  settingsNow,
  settingsOf,
  settingsText,
  submissionOf,
} from "./queue_draft";
import { ConfigFields } from "./queue_form";
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
  const { form, change, forget, startOver } = useDraft(draftName(queue), first);
  const [hasTried, setHasTried] = useState(false);
  const save = useDeed(SaveQueue, "Queue", "Queues", "History");
  const close = () => go(withSearch({ edit: null }), "replace");
  const { settings, obstacle } = useMemo(() => settingsOf(form), [form]);
  const submit = () => {
    setHasTried(true);
    if (!settings || save.isPending) return;
    const submission = submissionOf(settings);
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
    const leave = () => {
      forget();
      close();
    };
    save.mutate({ input }, { onSuccess: leave });
  };
  const footer = (
    <>
      <StartOver deed={startOver} />
      <Button onClick={close}>{t.cancel}</Button>
      <Button kind="primary" type="submit" form="edit-queue" isBusy={save.isPending}>
        {t.saveConfig}
      </Button>
    </>
  );
  const before = useMemo(() => settingsText(t, settingsNow(queue)), [t, queue]);
  const after = useMemo(() => (settings ? settingsText(t, settings) : before), [t, settings, before]);
  return (
    <Drawer
      title={`${t.editConfig} · ${queue.name}`}
      onClose={close}
      footer={footer}
      problem={<Problem error={hasTried && obstacle ? new Error(t[obstacle]) : save.error} />}
      aside={<Preview wanted={draftQueue(settings, resource)} hint={t.previewOfQueue} />}
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
        {before !== after && <Diff title={t.changes} before={before} after={after} />}
      </form>
    </Drawer>
  );
}
