/** Who looks, and which entities they belong to. */
import { createContext, type ReactNode, useContext } from "react";
import { Viewer } from "./api/generated";
import { useAsk } from "./api/live";
import { Answer } from "./parts/basic";
import { usePreference } from "./preferences";

type Known = {
  username: string;
  isAdmin: boolean;
  entities: string[];
  entity: string;
  version: string;
  choose: (entity: string) => void;
};

const Context = createContext<Known | null>(null);

export function ViewerProvider({ children }: { children: ReactNode }) {
  const answer = useAsk(Viewer, {});
  const [chosen, choose] = usePreference<string>("entity", "");
  return (
    <Answer of={answer}>
      {({ viewer, serverInfo }) => {
        const username = viewer?.username ?? "";
        const teams = viewer?.teams?.edges.flatMap(({ node }) => (node ? [node.name] : [])) ?? [];
        const entities = [...new Set([viewer?.entity ?? username, ...teams])];
        const entity = entities.includes(chosen) ? chosen : (entities[0] ?? "");
        const version = serverInfo?.latestLocalVersionInfo?.versionOnThisInstanceString ?? "";
        return (
          <Context value={{ username, isAdmin: viewer?.admin ?? false, entities, entity, version, choose }}>{children}</Context>
        );
      }}
    </Answer>
  );
}

export function useViewer(): Known {
  const known = useContext(Context);
  if (!known) throw new Error("inside of ViewerProvider only");
  return known;
}
