/** The launch drawer is open where the address says so: `?open=launch`, with what it is filled from. */
import { lazy, Suspense } from "react";
import { go, useSearch, withSearch } from "../router";

const LaunchDrawer = lazy(() => import("./launch"));
const NAMES = ["open", "queue", "item", "job", "run"] as const;

export function LaunchFromSearch({ entity, project }: { entity: string; project: string | null }) {
  const search = useSearch();
  if (search.get("open") !== "launch") return null;
  const close = () => go(withSearch(Object.fromEntries(NAMES.map((name) => [name, null]))), "replace");
  const from = { queue: search.get("queue"), item: search.get("item"), job: search.get("job"), run: search.get("run") };
  return (
    <Suspense>
      <LaunchDrawer key={JSON.stringify([entity, project, from])} entity={entity} project={project} from={from} onClose={close} />
    </Suspense>
  );
}
