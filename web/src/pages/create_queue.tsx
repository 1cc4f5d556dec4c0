/** The drawer that makes a queue: choose a start, describe its variables, create. What is typed survives until it is created. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ask } from "../api/client";
import { CreateQueue as Create, CreateConfig } from "../api/generated";
import { refresh } from "../api/live";
import { Button, Problem } from "../parts/basic";
import { Confirm, Drawer, StartOver } from "../parts/drawer";
import { SelectField, Switch, TextField } from "../parts/form";
import { useDraft } from "../preferences";
import { go, pathOf } from "../router";
import { useText } from "../text";
import { useRoles, useViewer } from "../viewer";
import { Preview } from "./preview";
import { REGISTRY, RESOURCES } from "./queue_data";
import { draftQueue, type EditForm, type Settings, settingsOf, submissionOf } from "./queue_draft";
import { ConfigFields } from "./queue_form";
import { NEW_VARIABLE, STARTS, type Start } from "./templates";

type Form = EditForm & { entity: string; name: string; resource: string; start: string };

const startOf = ({ name, resource, text, variables = {} }: Start) => ({
  start: name,
  resource,
  text,
  language: "yaml" as const,
  variables: Object.fromEntries(Object.entries(variables).map(([name, some]) => [name, { ...NEW_VARIABLE, ...some }])),
});

/** Whether somebody wrote what another start would overwrite. */
function isEdited({ start, text, variables }: Form): boolean {
  const first = STARTS.find(({ name }) => name === start);
  return !first || JSON.stringify([startOf(first).text, startOf(first).variables]) !== JSON.stringify([text, variables]);
}

export default function CreateQueue({ onClose }: { onClose: () => void }) {
  const t = useText();
  const known = useQueryClient();
  const { entity, entities } = useViewer();
  const roles = useRoles();
  const first: Form = { entity, name: "", hasPriorities: false, ...startOf(STARTS[0] as Start) };
  const { form, change, forget, startOver } = useDraft<Form>("queue", first);
  const { settings, obstacle } = useMemo(() => settingsOf(form), [form]);
  const [hasTried, setHasTried] = useState(false);
  const [asked, setAsked] = useState<Start | null>(null);
  const choose = (start: Start) => (isEdited(form) ? setAsked(start) : change(startOf(start)));
  const create = useMutation({
    mutationFn: async (settings: Settings) => {
      const submission = submissionOf(settings);
      const made = await ask(CreateConfig, { input: { entityName: form.entity, resource: form.resource, ...submission } });
      const defaultResourceConfigID = made.createDefaultResourceConfig?.defaultResourceConfigID ?? null;
      const prioritizationMode = form.hasPriorities ? "V0" : "DISABLED";
      await ask(Create, {
        input: {
          entityName: form.entity,
          projectName: REGISTRY,
          queueName: form.name,
          access: "PROJECT",
          prioritizationMode,
          defaultResourceConfigID,
        },
      });
    },
    onSuccess: () => {
      forget();
      refresh(known, ["Queues"]);
      go(pathOf("launch", form.entity, form.name, "agents"), "replace");
    },
  });
  const footer = (
    <>
      <StartOver deed={startOver} />
      <Button onClick={onClose}>{t.cancel}</Button>
      <Button kind="primary" type="submit" form="create-queue" isBusy={create.isPending}>
        {t.createQueue}
      </Button>
    </>
  );
  return (
    <>
      <Drawer
        title={t.createQueue}
        onClose={onClose}
        footer={footer}
        problem={<Problem error={hasTried && obstacle ? new Error(t[obstacle]) : create.error} />}
        aside={<Preview wanted={draftQueue(settings, form.resource)} hint={t.previewOfQueue} />}
      >
        <form
          id="create-queue"
          onSubmit={(event) => {
            event.preventDefault();
            setHasTried(true);
            if (settings && !create.isPending) create.mutate(settings);
          }}
        >
          <fieldset className="starts">
            <legend>{t.startFrom}</legend>
            {STARTS.map((start) => (
              <label key={start.name}>
                <input type="radio" name="start" checked={form.start === start.name} onChange={() => choose(start)} />
                <span>
                  <strong>{t.starts[start.name][0]}</strong>
                  <span className="hint">{t.starts[start.name][1]}</span>
                </span>
              </label>
            ))}
          </fieldset>
          <div className="columns thirds">
            <TextField label={t.queueName} value={form.name} onText={(name) => change({ name })} required maxLength={64} />
            <SelectField
              label={t.entity}
              value={form.entity}
              choices={entities.map((name) => ({
                value: name,
                label: roles[name] === "viewer" ? `${name} · ${t.viewerOnly}` : name,
                isDisabled: roles[name] === "viewer",
              }))}
              onText={(entity) => change({ entity })}
            />
            <SelectField
              label={t.resource}
              value={form.resource}
              choices={RESOURCES.map(([value, label]) => ({ value, label }))}
              onText={(resource) => change({ resource })}
            />
          </div>
          <ConfigFields form={form} resource={form.resource} change={change} />
          <Switch
            label={t.prioritisation}
            hint={t.prioritisationHint}
            isOn={form.hasPriorities}
            onSwitch={(hasPriorities) => change({ hasPriorities })}
          />
        </form>
      </Drawer>
      {asked && (
        <Confirm
          title={t.replaceTyped}
          text={t.replaceTypedText}
          deed={t.replace}
          onYes={() => {
            change(startOf(asked));
            setAsked(null);
          }}
          onNo={() => setAsked(null)}
        />
      )}
    </>
  );
}
