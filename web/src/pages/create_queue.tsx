/** The drawer that makes a queue: choose a start, describe its variables, create. What is typed survives until it is created. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { ask } from "../api/client";
import { CreateQueue as Create, CreateConfig } from "../api/generated";
import { refresh } from "../api/live";
import { Button, Problem } from "../parts/basic";
import { Drawer, StartOver } from "../parts/drawer";
import { SelectField, Switch, TextField } from "../parts/form";
import { useDraft } from "../preferences";
import { go, pathOf } from "../router";
import { useText } from "../text";
import { useRoles, useViewer } from "../viewer";
import { Preview } from "./preview";
import { REGISTRY, RESOURCES } from "./queue_data";
import { ConfigFields, type ConfigForm, draftQueue, submissionOf } from "./queue_form";
import { NEW_VARIABLE, STARTS, type Start } from "./templates";

type Form = ConfigForm & { entity: string; name: string; resource: string; hasPriorities: boolean; start: string };

const startOf = ({ name, resource, text, variables = {} }: Start) => ({
  start: name,
  resource,
  text,
  language: "yaml" as const,
  variables: Object.fromEntries(Object.entries(variables).map(([name, some]) => [name, { ...NEW_VARIABLE, ...some }])),
});

export default function CreateQueue({ onClose }: { onClose: () => void }) {
  const t = useText();
  const known = useQueryClient();
  const { entity, entities } = useViewer();
  const roles = useRoles();
  const first: Form = { entity, name: "", hasPriorities: false, ...startOf(STARTS[0] as Start) };
  const { form, change, forget, startOver } = useDraft<Form>("queue", first);
  const create = useMutation({
    mutationFn: async () => {
      const submission = submissionOf(form);
      if (!submission) throw new Error(t.unreadable);
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
      go(pathOf("launch", form.entity, form.name, "agents"));
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
    <Drawer
      title={t.createQueue}
      onClose={onClose}
      footer={footer}
      aside={<Preview wanted={draftQueue(form, form.resource, form.hasPriorities)} hint={t.previewOfQueue} />}
    >
      <form
        id="create-queue"
        onSubmit={(event) => {
          event.preventDefault();
          if (!create.isPending) create.mutate();
        }}
      >
        <fieldset className="starts">
          <legend>{t.startFrom}</legend>
          {STARTS.map((start) => (
            <label key={start.name}>
              <input type="radio" name="start" checked={form.start === start.name} onChange={() => change(startOf(start))} />
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
        <Problem error={create.error} />
      </form>
    </Drawer>
  );
}
