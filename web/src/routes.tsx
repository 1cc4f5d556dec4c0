/** The pages, in the order in which their patterns are tried. A run has the address that W&B's clients print. */
import { lazy, type ReactNode } from "react";
import { HomePage } from "./pages/home";
import { JobsPage } from "./pages/jobs";
import { QueuePage } from "./pages/queue";
import { QueuesPage } from "./pages/queues";
import { RunPage } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { SettingsPage } from "./pages/settings";

const JobPage = lazy(() => import("./pages/job"));
const ComparePage = lazy(() => import("./pages/compare"));
const ClusterPage = lazy(() => import("./pages/cluster"));

type Values = { entity: string } & Record<string, string>;
type Page = { name: string; path: string; show: (values: Values) => ReactNode };

const text = (value: string | undefined): string => value ?? "";

export const PAGES: Page[] = [
  { name: "home", path: "/", show: () => <HomePage /> },
  { name: "queues", path: "/launch", show: () => <QueuesPage /> },
  {
    name: "queue",
    path: "/launch/:entity/:queue",
    show: (v) => <QueuePage entity={v.entity} queue={text(v.queue)} tab="runs" />,
  },
  {
    name: "queue",
    path: "/launch/:entity/:queue/:tab",
    show: (v) => <QueuePage entity={v.entity} queue={text(v.queue)} tab={text(v.tab)} />,
  },
  { name: "cluster", path: "/cluster", show: () => <ClusterPage /> },
  { name: "settings", path: "/settings", show: () => <SettingsPage /> },
  // Where `wandb login` sends people for their key.
  { name: "settings", path: "/authorize", show: () => <SettingsPage /> },
  { name: "runs", path: "/:entity/:project", show: (v) => <RunsPage entity={v.entity} project={text(v.project)} /> },
  { name: "runs", path: "/:entity/:project/runs", show: (v) => <RunsPage entity={v.entity} project={text(v.project)} /> },
  { name: "jobs", path: "/:entity/:project/jobs", show: (v) => <JobsPage entity={v.entity} project={text(v.project)} /> },
  {
    name: "job",
    path: "/:entity/:project/jobs/:job",
    show: (v) => <JobPage entity={v.entity} project={text(v.project)} job={text(v.job)} />,
  },
  {
    name: "compare",
    path: "/:entity/:project/compare",
    show: (v) => <ComparePage entity={v.entity} project={text(v.project)} />,
  },
  {
    name: "run",
    path: "/:entity/:project/runs/:run",
    show: (v) => <RunPage entity={v.entity} project={text(v.project)} run={text(v.run)} tab="overview" />,
  },
  {
    name: "run",
    path: "/:entity/:project/runs/:run/:tab",
    show: (v) => <RunPage entity={v.entity} project={text(v.project)} run={text(v.run)} tab={text(v.tab)} />,
  },
];
