/**
 * The launch drawer: a job or an image, into a queue, with overrides and template values.
 *
 * It is filled from where it was opened: a queue, an item ("launch again"), a job or a run. The server judges what is sent.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Push, type QueueRow, Queues } from "../api/generated";
import { AGENTS, refresh, useAsk, useDeed } from "../api/live";
import { Answer, Button, Empty, Problem } from "../parts/basic";
import { Drawer, StartOver } from "../parts/drawer";
import { Editor } from "../parts/editor";
import { SelectField, TextField } from "../parts/form";
import { useDraft } from "../preferences";
import { go, Link, pathOf } from "../router";
import { useText } from "../text";
import { ResourceConfig, Value, What } from "./launch_fields";
import { draftName, type From, fill, inputOf, type LaunchForm, launchOf, previewOf, queueOf, unreadableIn } from "./launch_form";
import { JobInputs, useInputs } from "./launch_inputs";
import { Preview } from "./preview";
import { hasAgent, REGISTRY, resourceName, schemaOf } from "./queue_data";

type Props = { entity: string; project: string | null; from: From; onClose: () => void };

export default function LaunchDrawer(props: Props) {
  const t = useText();
  const queues = useAsk(Queues, { entity: props.entity, project: REGISTRY }, AGENTS);
  const { entity, project, from } = props;
  const initial = useQuery({
    queryKey: ["LaunchFrom", entity, project, from],
    queryFn: () => fill(entity, project, from),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  if (!queues.data || !initial.data)
    return (
      <Drawer title={t.launchDeed} onClose={props.onClose}>
        <Answer of={queues.data ? initial : queues}>{() => null}</Answer>
      </Drawer>
    );
  return <Filled {...props} queues={queues.data.project?.runQueues ?? []} initial={initial.data} />;
}

function Filled({ entity, project, from, onClose, queues, initial }: Props & { queues: QueueRow[]; initial: LaunchForm }) {
  const t = useText();
  const known = useQueryClient();
  const { form: draft, change, forget, startOver } = useDraft(draftName(entity, project, from), initial);
  const queue = queueOf(queues, draft.queue);
  // A change to the config of one queue means nothing to another.
  const form = queue?.name === draft.queue ? draft : { ...draft, queue: queue?.name ?? "", resourceConfig: null };
  const [hasTried, setHasTried] = useState(false);
  const push = useDeed(Push, "Queues");
  const config = queue?.defaultResourceConfig ?? null;
  const inputs = useInputs(form.what === "job" ? form.job : "");
  const { runConfig, resourceConfig } = form;
  const unreadable = useMemo(() => unreadableIn({ runConfig, resourceConfig }), [runConfig, resourceConfig]);
  const obstacle = queue ? unreadable && `${t[unreadable]}: ${t.unreadable}` : t.noQueueAllowed;
  const submit = () => {
    setHasTried(true);
    const launch = queue && launchOf(entity, form, queue);
    if (!launch || push.isPending) return;
    const leave = () => {
      forget();
      refresh(known, ["Items"]);
      go(pathOf("launch", entity, queue.name, "runs"), "replace");
    };
    push.mutate({ input: inputOf(launch, queue) }, { onSuccess: leave });
  };
  if (queues.length === 0)
    return (
      <Drawer title={t.launchDeed} onClose={onClose}>
        <Empty
          icon="queue"
          title={t.noQueues}
          action={
            <Link className="button primary" to="/launch?open=queue">
              {t.createQueue}
            </Link>
          }
        >
          <p>{t.noQueuesText}</p>
        </Empty>
      </Drawer>
    );
  const footer = (
    <>
      <StartOver deed={startOver} />
      <Button onClick={onClose}>{t.cancel}</Button>
      <Button kind="primary" type="submit" form="launch" icon="rocket" isBusy={push.isPending}>
        {t.launchNow}
      </Button>
    </>
  );
  return (
    <Drawer
      title={from.item || from.run ? t.launchAgain : t.launchDeed}
      onClose={onClose}
      footer={footer}
      problem={<Problem error={hasTried && obstacle ? new Error(obstacle) : push.error} />}
      aside={queue && <Preview wanted={previewOf(entity, form, queue)} />}
    >
      <form
        id="launch"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <What entity={entity} form={form} change={change} />
        <h3>{t.whereTo}</h3>
        <SelectField
          label={t.queue}
          value={form.queue}
          choices={queues.map((one) => ({
            value: one.name,
            label: `${one.name} · ${resourceName(one.defaultResourceConfig?.resource)}${one.maySubmit ? (hasAgent(one) ? "" : ` · ${t.willWait}`) : ` · ${t.viewerOnly}`}`,
            isDisabled: !one.maySubmit,
          }))}
          onText={(queue) => change({ queue, resourceConfig: null })}
        />
        {(config?.templateVariables ?? []).map((variable) => (
          <Value
            key={variable.name}
            name={variable.name}
            description={variable.description}
            schema={schemaOf(variable)}
            text={form.values[variable.name]}
            onText={(text) => change({ values: { ...form.values, [variable.name]: text } })}
          />
        ))}
        {queue?.prioritizationMode === "V0" && (
          <SelectField
            label={t.priority}
            value={form.priority}
            choices={t.priorities.map((label, value) => ({ value: String(value), label }))}
            onText={(priority) => change({ priority })}
          />
        )}
        <h3>{t.overrides}</h3>
        <div className="columns">
          <TextField
            label={t.entryPoint}
            value={form.entryPoint}
            placeholder="python train.py"
            onText={(entryPoint) => change({ entryPoint })}
          />
          <TextField label={t.args} value={form.args} placeholder="--epochs 10" onText={(args) => change({ args })} />
        </div>
        {inputs && <JobInputs schema={inputs} text={form.runConfig} onText={(runConfig) => change({ runConfig })} />}
        <div className="field">
          <span className="label">{t.runConfig}</span>
          <Editor label={t.runConfig} value={form.runConfig} onChange={(runConfig) => change({ runConfig })} />
          <p className={unreadable === "runConfig" ? "error" : "hint"}>
            {unreadable === "runConfig" ? t.unreadable : t.runConfigHint}
          </p>
        </div>
        {config && (
          <ResourceConfig
            queue={queue as QueueRow}
            text={form.resourceConfig}
            onText={(text) => change({ queue: form.queue, resourceConfig: text })}
          />
        )}
      </form>
    </Drawer>
  );
}
