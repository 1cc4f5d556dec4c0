/** The door: an API key or a password lets one in, and a one-time link does so without this page. Where somebody wanted to go, they arrive. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { signIn } from "../api/client";
import { client } from "../api/live";
import { begin } from "../api/session";
import { Mark } from "../app";
import { Button, Heading, Problem } from "../parts/basic";
import { Segmented, TextField } from "../parts/form";
import { useText } from "../text";
import { LanguageChoice } from "./settings";

export function SignIn() {
  const t = useText();
  const [by, setBy] = useState<"key" | "password">("key");
  const [username, setUsername] = useState("");
  const [secret, setSecret] = useState("");
  const enter = useMutation({
    mutationFn: () => signIn(by === "key" ? { key: secret.trim() } : { username, password: secret }),
    onSuccess: () => {
      // What another user was shown must not be shown to this one.
      client.removeQueries();
      begin();
    },
  });
  return (
    <main className="door">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          enter.mutate();
        }}
      >
        <Mark />
        <Heading>{t.signInTo}</Heading>
        <Segmented
          label={t.signInBy}
          value={by}
          choices={[
            ["key", t.apiKey],
            ["password", t.password],
          ]}
          onChoose={setBy}
        />
        {by === "password" && (
          <TextField label={t.username} value={username} onText={setUsername} autoComplete="username" required />
        )}
        <TextField
          key={by}
          label={by === "key" ? t.apiKey : t.password}
          type="password"
          value={secret}
          onText={setSecret}
          autoComplete="current-password"
          required
          hint={t.whereIsTheKey}
        />
        <Problem error={enter.error} />
        <Button kind="primary" type="submit" isBusy={enter.isPending}>
          {t.signIn}
        </Button>
        <LanguageChoice />
      </form>
    </main>
  );
}
