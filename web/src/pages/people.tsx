/** The people of the server, for who administers it: make one, and give them a link that signs them in. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { send } from "../api/client";
import { refresh } from "../api/live";
import { Answer, Badge, Button, Command, Problem } from "../parts/basic";
import { NameForm } from "../parts/form";
import { useText } from "../text";

type Person = { username: string; admin: boolean; service: boolean; deleted: string | null };
type Link = { url: string };

export function People() {
  const t = useText();
  const known = useQueryClient();
  const answer = useQuery({ queryKey: ["People"], queryFn: async () => (await send("GET", "/api/v1/users")) as Person[] });
  const link = useMutation({
    mutationFn: async (username: string) => (await send("POST", `/api/v1/users/${encodeURIComponent(username)}/link`)) as Link,
  });
  const make = useMutation({
    mutationFn: (username: string) => send("POST", "/api/v1/users", { username }),
    onSuccess: (_, username) => {
      refresh(known, ["People"]);
      link.mutate(username);
    },
  });
  return (
    <section className="panel">
      <h2>{t.people}</h2>
      <Answer of={answer}>
        {(people) => (
          <ul className="rows">
            {people
              .filter(({ deleted }) => !deleted)
              .map(({ username, admin, service }) => (
                <li key={username}>
                  <span>{username}</span>
                  {admin && <Badge>{t.administrator}</Badge>}
                  {service && <Badge>{t.serviceAccount}</Badge>}
                  <Button kind="quiet" icon="key" onClick={() => link.mutate(username)} aria-label={t.linkFor(username)}>
                    {t.signInLink}
                  </Button>
                </li>
              ))}
          </ul>
        )}
      </Answer>
      <NameForm label={t.username} deed={t.newUser} isBusy={make.isPending} make={make.mutate} />
      <Problem error={make.error ?? link.error} />
      {link.data && (
        <div className="notice" role="status">
          <p>{t.linkFor(link.variables ?? "")}</p>
          <Command text={link.data.url} />
        </div>
      )}
    </section>
  );
}
