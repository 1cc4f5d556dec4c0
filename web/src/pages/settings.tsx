/** What a person can set: language, colours, and their API keys. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../api/client";
import { refresh } from "../api/live";
import { Ago, Answer, Button, Command, Heading, Problem } from "../parts/basic";
import { Confirm } from "../parts/drawer";
import { NameForm, Segmented } from "../parts/form";
import { Icon } from "../parts/icon";
import { type Theme, useTheme } from "../preferences";
import { LANGUAGES, useLanguage, useText } from "../text";
import { useViewer } from "../viewer";
import { Password } from "./password";
import { People } from "./people";
import { Teams } from "./teams";

type Key = { id: number; name: string; begins: string; used: string | null };

export function SettingsPage() {
  const t = useText();
  const { username, entities, isAdmin, version } = useViewer();
  return (
    <>
      <header className="page-head">
        <div>
          <Heading>{t.settings}</Heading>
          <p className="lead">
            {t.signedInAs(username)}
            {isAdmin && ` · ${t.administrator}`} · {entities.join(", ")} · Volley {version}
          </p>
        </div>
      </header>
      <section className="panel">
        <h2>{t.appearance}</h2>
        <ThemeChoice />
        <LanguageChoice />
      </section>
      <Keys />
      <Password />
      <Teams />
      {isAdmin && <People />}
    </>
  );
}

function ThemeChoice() {
  const t = useText();
  const [theme, setTheme] = useTheme();
  const choices: [Theme, string][] = [
    ["system", t.themeSystem],
    ["light", t.themeLight],
    ["dark", t.themeDark],
  ];
  return <Segmented label={t.colours} value={theme} choices={choices} onChoose={setTheme} />;
}

export function LanguageChoice() {
  const t = useText();
  const [language, setLanguage] = useLanguage();
  return <Segmented label={t.language} value={language} choices={LANGUAGES} onChoose={setLanguage} />;
}

function Keys() {
  const t = useText();
  const known = useQueryClient();
  const [revoking, setRevoking] = useState<Key | null>(null);
  const answer = useQuery({ queryKey: ["Keys"], queryFn: async () => (await send("GET", "/api/v1/keys")) as Key[] });
  const again = () => refresh(known, ["Keys"]);
  const make = useMutation({
    mutationFn: async (name: string) => (await send("POST", "/api/v1/keys", { name })) as { key: string },
    onSuccess: again,
  });
  const revoke = useMutation({
    mutationFn: ({ id }: Key) => send("DELETE", `/api/v1/keys/${id}`),
    onSuccess: () => [setRevoking(null), again()],
  });
  return (
    <section className="panel">
      <h2>{t.apiKeys}</h2>
      <p className="lead">{t.apiKeysText}</p>
      <Answer of={answer}>
        {(keys) => (
          <ul className="rows">
            {keys.map((key) => (
              <li key={key.id}>
                <Icon name="key" />
                <span>{key.name}</span>
                <code>{key.begins}…</code>
                <span className="faint small">
                  {key.used ? (
                    <>
                      {t.keyUsed} <Ago at={key.used} />
                    </>
                  ) : (
                    t.keyUnused
                  )}
                </span>
                <Button kind="quiet" icon="trash" onClick={() => setRevoking(key)} aria-label={t.revokeKey(key.name)} />
              </li>
            ))}
          </ul>
        )}
      </Answer>
      <NameForm label={t.keyName} deed={t.newKey} isBusy={make.isPending} make={make.mutate} />
      <Problem error={make.error} />
      {make.data && (
        <div className="notice" role="status">
          <p>{t.keyShownOnce}</p>
          <Command text={make.data.key} />
        </div>
      )}
      {revoking && (
        <Confirm
          title={t.revokeKey(revoking.name)}
          text={t.revokeText}
          deed={t.revoke}
          onYes={() => revoke.mutate(revoking)}
          onNo={() => setRevoking(null)}
          isBusy={revoke.isPending}
          error={<Problem error={revoke.error} />}
        />
      )}
    </section>
  );
}
