/** The jobs of a project: what can be launched again and again. */
import { Jobs, type JobsData } from "../api/generated";
import { useAsk } from "../api/live";
import { Ago, Answer, Button, Command, Empty, Heading } from "../parts/basic";
import { type Column, Table } from "../parts/table";
import { go, Link, pathOf, withSearch } from "../router";
import { useText } from "../text";
import { LaunchFromSearch } from "./launch_place";

type Collections = NonNullable<NonNullable<NonNullable<JobsData["project"]>["artifactType"]>["artifactCollections"]>;
type Row = NonNullable<Collections["edges"][number]["node"]>;

export function JobsPage({ entity, project }: { entity: string; project: string }) {
  const t = useText();
  const answer = useAsk(Jobs, { entity, project });
  const launch = (name: string) => go(withSearch({ open: "launch", job: `${entity}/${project}/${name}:latest` }));
  const columns: Column<Row>[] = [
    {
      title: t.job,
      isName: true,
      width: 3,
      by: (job) => job.name,
      show: (job) => (
        <Link className="strong cut" to={pathOf(entity, project, "jobs", job.name)}>
          {job.name}
        </Link>
      ),
    },
    { title: t.versions, isNumber: true, by: (job) => job.artifacts?.totalCount, show: (job) => job.artifacts?.totalCount },
    { title: t.created, by: (job) => job.createdAt, show: (job) => <Ago at={job.createdAt} /> },
    { title: t.updated, by: (job) => job.updatedAt, show: (job) => <Ago at={job.updatedAt} /> },
    {
      title: t.deeds,
      isTitleHidden: true,
      show: (job) => (
        <Button icon="rocket" onClick={() => launch(job.name)} aria-label={t.launchJob(job.name)}>
          {t.launchDeed}
        </Button>
      ),
    },
  ];
  return (
    <>
      <header className="page-head">
        <div>
          <Link to={pathOf(entity, project)} className="back">
            {entity} / {project}
          </Link>
          <Heading>{t.jobs}</Heading>
        </div>
      </header>
      <Answer of={answer}>
        {({ project: found }) => {
          const rows = (found?.artifactType?.artifactCollections?.edges ?? []).flatMap(({ node }) => node ?? []);
          if (rows.length === 0)
            return (
              <Empty icon="job" title={t.noJobs}>
                <p>{t.noJobsText}</p>
                <Command text={`wandb job create image ghcr.io/team/train:1 -e ${entity} -p ${project}`} />
              </Empty>
            );
          return <Table label={t.jobs} columns={columns} rows={rows} id={(job) => job.id} text={(job) => job.name} />;
        }}
      </Answer>
      <LaunchFromSearch entity={entity} project={project} />
    </>
  );
}
