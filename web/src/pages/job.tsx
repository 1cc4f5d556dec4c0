/** One job: its versions, what each is made of, and the runs that it led to. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Job, type JobData } from "../api/generated";
import { useAsk } from "../api/live";
import { toText } from "../documents";
import { Ago, Answer, Badge, Button, Facts, Heading } from "../parts/basic";
import { Editor } from "../parts/editor";
import { SelectField } from "../parts/form";
import { go, Link, pathOf, withSearch } from "../router";
import { useText } from "../text";
import { LaunchFromSearch } from "./launch_place";
import { local } from "./run_files";
import { RunTable } from "./runs";

type Collection = NonNullable<NonNullable<NonNullable<JobData["project"]>["artifactType"]>["artifactCollection"]>;
type Version = NonNullable<Collection["artifacts"]>["edges"][number];
type Source = {
  source_type?: string;
  source?: { image?: string; entrypoint?: string[]; git?: { remote?: string; commit?: string } };
  runtime?: string;
};

export default function JobPage({ entity, project, job: name }: { entity: string; project: string; job: string }) {
  const t = useText();
  const answer = useAsk(Job, { entity, project, job: name });
  return (
    <Answer of={answer}>
      {({ project: found }) => {
        const job = found?.artifactType?.artifactCollection;
        return job ? <Shown entity={entity} project={project} job={job} /> : <Heading>{t.noSuchJob(name)}</Heading>;
      }}
    </Answer>
  );
}

function Shown({ entity, project, job }: { entity: string; project: string; job: Collection }) {
  const t = useText();
  const versions = job.artifacts?.edges ?? [];
  const [chosen, choose] = useState(versions[0]?.node.id ?? "");
  const version = versions.find(({ node }) => node.id === chosen) ?? versions[0];
  const launch = () =>
    go(withSearch({ open: "launch", job: `${entity}/${project}/${job.name}:${version?.version ?? "latest"}` }));
  const runs = version?.node.usedBy?.edges.map(({ node }) => node) ?? [];
  return (
    <>
      <header className="page-head">
        <div>
          <Link to={pathOf(entity, project, "jobs")} className="back">
            {t.jobs}
          </Link>
          <Heading>{job.name}</Heading>
          <p className="badges">
            {version?.node.aliases.map(({ alias }) => (
              <Badge key={alias}>{alias}</Badge>
            ))}
            <span className="faint">
              {t.created} <Ago at={job.createdAt} />
            </span>
          </p>
        </div>
        <Button kind="primary" icon="rocket" onClick={launch}>
          {t.launchDeed}
        </Button>
      </header>
      <SelectField
        label={t.version}
        value={chosen}
        choices={versions.map(({ version, node }) => ({
          value: node.id,
          label: [version, ...node.aliases.map(({ alias }) => alias)].join(" · "),
        }))}
        onText={choose}
      />
      {version && <Details key={version.node.id} version={version} />}
      {runs.length > 0 && (
        <section>
          <h2>{t.runs}</h2>
          <RunTable entity={entity} project={project} runs={runs} />
        </section>
      )}
      <LaunchFromSearch entity={entity} project={project} />
    </>
  );
}

function Details({ version }: { version: Version }) {
  const t = useText();
  const file = version.node.files?.edges.find(({ node }) => node?.name === "wandb-job.json")?.node;
  const source = useQuery({
    queryKey: ["JobFile", version.node.id],
    enabled: Boolean(file?.directUrl),
    queryFn: async () => (await (await fetch(local(file?.directUrl ?? ""))).json()) as Source,
  });
  const { source: made, source_type: kind, runtime } = source.data ?? {};
  return (
    <section className="panel">
      <h2>{t.madeOf}</h2>
      <Facts
        of={[
          [t.kind, kind],
          [t.image, made?.image && <code>{made.image}</code>],
          [t.repository, made?.git?.remote && <code>{made.git.remote}</code>],
          [t.commit, made?.git?.commit && <code>{made.git.commit}</code>],
          [t.entryPoint, made?.entrypoint && <code>{made.entrypoint.join(" ")}</code>],
          ["Python", runtime],
          [t.created, <Ago key="ago" at={version.node.createdAt} />],
        ]}
      />
      {version.node.metadata && version.node.metadata !== "{}" && version.node.metadata !== "null" && (
        <Editor label={t.inputs} value={toText(JSON.parse(version.node.metadata))} />
      )}
    </section>
  );
}
