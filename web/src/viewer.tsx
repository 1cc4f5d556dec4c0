/** Who looks, and which entities they belong to. */
import { useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext } from "react";
import { send } from "./api/client";
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

export type Role = "viewer" | "member" | "admin";

/** What one is in each entity; empty until it is known. */
export function useRoles(): Record<string, Role | null> {
  const answer = useQuery({
    queryKey: ["Session"],
    queryFn: async () => (await send("GET", "/api/v1/session")) as { roles: Record<string, Role | null> },
  });
  return answer.data?.roles ?? {};
}
