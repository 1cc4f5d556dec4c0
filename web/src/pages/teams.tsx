/** Teams: who is in them, and as what. Whoever administers a team changes it; whoever administers the server makes one. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../api/client";
import { client, refresh } from "../api/live";
import { Answer, Button, Problem } from "../parts/basic";
import { NameForm, SelectField, TextField } from "../parts/form";
import { Icon } from "../parts/icon";
import { pathOf } from "../router";
import { useText } from "../text";
import { type Role, useRoles, useViewer } from "../viewer";

type Team = { name: string; members: Record<string, Role> };
const ROLES: Role[] = ["viewer", "member", "admin"];

export function Teams() {
  const t = useText();
  const { isAdmin } = useViewer();
  const roles = useRoles();
  const answer = useQuery({ queryKey: ["Teams"], queryFn: async () => (await send("GET", "/api/v1/teams")) as Team[] });
  const make = useMutation({
    mutationFn: (name: string) => send("POST", "/api/v1/teams", { name }),
    onSuccess: () => refresh(client, ["Teams", "Viewer", "Session"]),
  });
  return (
    <section className="panel">
      <h2>{t.teams}</h2>
      <p className="lead">{t.teamsText}</p>
      <Answer of={answer}>
        {(teams) =>
          teams.length === 0 ? (
            <p className="faint">{t.noTeams}</p>
          ) : (
            teams.map((team) => <Members key={team.name} team={team} mayChange={isAdmin || roles[team.name] === "admin"} />)
          )
        }
      </Answer>
      {isAdmin && <NameForm label={t.teamName} deed={t.newTeam} isBusy={make.isPending} make={make.mutate} />}
      <Problem error={make.error} />
    </section>
  );
}

function Members({ team, mayChange }: { team: Team; mayChange: boolean }) {
  const t = useText();
  const member = (user: string) => `/api/v1/teams${pathOf(team.name)}/members${pathOf(user)}`;
  const change = useMutation({
    mutationFn: ({ user, role }: { user: string; role: Role | null }) =>
      role === null ? send("DELETE", member(user)) : send("PUT", member(user), { role }),
    onSuccess: () => refresh(client, ["Teams", "Viewer", "Session"]),
  });
  const choices = ROLES.map((value) => ({ value, label: t.roles[value] }));
  return (
    <div className="team">
      <h3>
        <Icon name="people" /> {team.name}
      </h3>
      <ul className="rows">
        {Object.entries(team.members).map(([user, role]) => (
          <li key={user}>
            <span>{user}</span>
            {mayChange ? (
              <>
                <SelectField
                  label={t.roleOf(user)}
                  value={role}
                  choices={choices}
                  onText={(next) => change.mutate({ user, role: next as Role })}
                />
                <Button
                  kind="quiet"
                  icon="close"
                  onClick={() => change.mutate({ user, role: null })}
                  aria-label={t.takeOut(user, team.name)}
                />
              </>
            ) : (
              <span className="faint">{t.roles[role]}</span>
            )}
          </li>
        ))}
      </ul>
      {mayChange && (
        <Add
          team={team.name}
          onAdd={(user, role, onSuccess) => change.mutate({ user, role }, { onSuccess })}
          isBusy={change.isPending}
        />
      )}
      <Problem error={change.error} />
    </div>
  );
}

type AddProps = { team: string; onAdd: (user: string, role: Role, onSuccess: () => void) => void; isBusy: boolean };

function Add({ team, onAdd, isBusy }: AddProps) {
  const t = useText();
  const [user, setUser] = useState("");
  const [role, setRole] = useState<Role>("member");
  return (
    <form
      className="inline-form"
      onSubmit={(event) => {
        event.preventDefault();
        onAdd(user.trim(), role, () => setUser(""));
      }}
    >
      <TextField label={t.addTo(team)} value={user} onText={setUser} placeholder={t.username} required />
      <SelectField
        label={t.role}
        value={role}
        choices={ROLES.map((value) => ({ value, label: t.roles[value] }))}
        onText={(next) => setRole(next as Role)}
      />
      <Button type="submit" icon="plus" isBusy={isBusy}>
        {t.add}
      </Button>
    </form>
  );
}
