/** What a queue's config was before: who changed it, when, and what they changed. An earlier one can be taken up again. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../api/client";
import type { QueueRow } from "../api/generated";
import { toText } from "../documents";
import { Ago, Answer, Button } from "../parts/basic";
import { Diff } from "../parts/diff";
import { Confirm } from "../parts/drawer";
import { hasDraft, keepDraft } from "../preferences";
import { go, pathOf, withSearch } from "../router";
import { useText } from "../text";
import { draftName, draftOf, type EditForm, type Settings, settingsText } from "./queue_draft";

type Version = {
  version: number;
  at: string;
  user: string;
  prioritization: string;
  config: object | null;
  template_variables: Settings["variables"] | null;
};

const settingsOf = (version: Version): Settings => ({
  config: version.config ?? {},
  variables: version.template_variables ?? {},
  hasPriorities: version.prioritization === "V0",
});

export function History({ entity, queue }: { entity: string; queue: QueueRow }) {
  const t = useText();
  const answer = useQuery({
    queryKey: ["History", entity, queue.name],
    queryFn: async () => (await send("GET", `/api/v1/queues${pathOf(entity, queue.name)}/history`)) as Version[],
  });
  return (
    <section className="panel">
      <h2>{t.history}</h2>
      <Answer of={answer}>
        {(versions) => (
          <ol className="history">
            {versions.map((version, index) => (
              <Entry
                key={version.version}
                queue={queue}
                version={version}
                number={versions.length - index}
                before={versions[index + 1]}
                isNow={index === 0}
              />
            ))}
          </ol>
        )}
      </Answer>
    </section>
  );
}

type EntryProps = { queue: QueueRow; version: Version; before: Version | undefined; number: number; isNow: boolean };

function Entry({ queue, version, before, number, isNow }: EntryProps) {
  const t = useText();
  const [isOpen, setIsOpen] = useState(false);
  const [isAsked, setIsAsked] = useState(false);
  const textOf = (one: Version) => settingsText(t, settingsOf(one));
  const takeUp = () => {
    const variables = Object.entries(version.template_variables ?? {}).map(([name, { schema, description = null }]) => [
      name,
      draftOf({ name, description, schema: JSON.stringify(schema) }),
    ]);
    const draft: EditForm = {
      text: toText(version.config ?? {}),
      language: "yaml",
      variables: Object.fromEntries(variables),
      hasPriorities: version.prioritization === "V0",
    };
    keepDraft(draftName(queue), draft);
    setIsAsked(false);
    go(withSearch({ edit: "" }));
  };
  return (
    <li>
      <div className="history-head">
        <Button kind="quiet" icon={isOpen ? "fold" : "next"} aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
          {t.versionNumber(number)}
        </Button>
        <span className="faint small">
          {version.user} · <Ago at={version.at} />
        </span>
        {isNow ? (
          <span className="badge">{t.now}</span>
        ) : (
          queue.mayManage && (
            <Button
              kind="quiet"
              onClick={() => (hasDraft(draftName(queue)) ? setIsAsked(true) : takeUp())}
              aria-label={`${t.takeUp} · ${t.versionNumber(number)}`}
            >
              {t.takeUp}
            </Button>
          )
        )}
      </div>
      {isOpen &&
        (before ? (
          <Diff title={t.changesSince(number - 1)} before={textOf(before)} after={textOf(version)} />
        ) : (
          <Diff title={t.firstVersion} before="" after={textOf(version)} />
        ))}
      {isAsked && (
        <Confirm
          title={t.replaceTyped}
          text={t.replaceTypedText}
          deed={t.replace}
          onYes={takeUp}
          onNo={() => setIsAsked(false)}
        />
      )}
    </li>
  );
}
