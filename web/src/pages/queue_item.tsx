/** All of one item: how it stands and why, what it was launched with, and what was submitted for it. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { send } from "../api/client";
import type { Item, QueueRow } from "../api/generated";
import { inReadingOrder, toText } from "../documents";
import { Ago, Answer, Button, Duration, durationText, Facts, State } from "../parts/basic";
import { Drawer } from "../parts/drawer";
import { Editor } from "../parts/editor";
import { go, Link, withSearch } from "../router";
import { useText } from "../text";
import { hasAgent, imageOf, shownState, specOf } from "./queue_data";
import { runPath, type Standing, titleOf } from "./queue_items";

type Props = { entity: string; queue: QueueRow; item: Item; standing: Standing | undefined; onClose: () => void };
type Told = { manifest: unknown; spec: unknown; agent: { name: string } | null; exit_code: number | null };

export default function ItemDrawer({ entity, queue, item, standing, onClose }: Props) {
  const t = useText();
  const answer = useQuery({
    queryKey: ["QueueItem", "told", item.id],
    queryFn: async () => (await send("GET", `/api/v1/items/${encodeURIComponent(item.id)}`)) as Told,
  });
  const run = runPath(item, entity);
  const footer = (
    <>
      {run && (
        <Link className="button plain" to={run}>
          {t.openRun}
        </Link>
      )}
      {queue.maySubmit && (
        <Button
          kind="primary"
          icon="rocket"
          onClick={() => {
            onClose();
            go(withSearch({ open: "launch", queue: queue.name, item: item.id }));
          }}
        >
          {t.launchAgain}
        </Button>
      )}
    </>
  );
  return (
    <Drawer title={titleOf(item)} onClose={onClose} footer={footer}>
      <div className="item">
        <Reports item={item} standing={standing} />
        <Answer of={answer}>{(told) => <Details queue={queue} item={item} standing={standing} told={told} />}</Answer>
      </div>
    </Drawer>
  );
}

/** Why it does not go on, or did not end well. */
function Reports({ item, standing }: { item: Item; standing: Standing | undefined }) {
  const t = useText();
  const reason = standing?.reason ?? item.waitingFor;
  const reports = [
    ...(item.error ? [{ ...item.error, tone: "bad" }] : []),
    ...(reason ? [{ message: reason, stage: t.waitsFor, tone: "wait" }] : []),
    ...(item.warnings ?? []).map((warning) => ({ ...warning, tone: "wait" })),
  ];
  return reports.map(({ message, stage, tone }) => (
    <div key={stage + message} className={`report ${tone}`}>
      <p className="small">{stage}</p>
      <pre>{message}</pre>
    </div>
  ));
}

type DetailsProps = { queue: QueueRow; item: Item; standing: Standing | undefined; told: Told };

function Details({ queue, item, standing, told }: DetailsProps) {
  const t = useText();
  const spec = specOf(item);
  const values = Object.entries((item.templateVariableValues ?? {}) as Record<string, unknown>);
  const submitted = useMemo(() => (told.manifest ? toText(inReadingOrder(told.manifest)) : null), [told]);
  const pushed = useMemo(() => toText(told.spec), [told]);
  return (
    <>
      <Facts
        of={[
          [t.status, <State key="state" name={shownState(item, hasAgent(queue))} />],
          [t.queuePlace, standing && String(standing.place)],
          [
            t.estimatedStart,
            standing && standing.startsInSeconds !== null && t.startsIn(durationText(t, standing.startsInSeconds)),
          ],
          [t.project, spec.project],
          [t.job, spec.job],
          [t.image, imageOf(spec) && <code>{imageOf(spec)}</code>],
          [t.author, spec.author],
          [t.priority, queue.prioritizationMode === "V0" && t.priorities[item.priority ?? 2]],
          [t.agent, told.agent?.name],
          [t.submitted, <Ago key="submitted" at={item.createdAt} />],
          [t.started, item.startedAt && <Ago at={item.startedAt} />],
          [t.duration, item.startedAt && <Duration from={item.startedAt} to={item.endedAt} />],
          [t.exitCode, told.exit_code === null ? null : String(told.exit_code)],
          ...values.map(([name, value]): [string, string] => [name, String(value)]),
        ]}
      />
      <h3>{submitted ? t.asSubmitted : t.launchedWith}</h3>
      <Editor label={submitted ? t.asSubmitted : t.launchedWith} value={submitted ?? pushed} />
    </>
  );
}
