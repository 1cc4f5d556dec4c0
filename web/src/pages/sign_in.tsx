/** The door: an API key lets one in. Where somebody wanted to go, they arrive. */
import { useState } from "react";
import { ask } from "../api/client";
import { Viewer } from "../api/generated";
import { client } from "../api/live";
import { signIn } from "../api/session";
import { Mark } from "../app";
import { Button, Heading, Problem } from "../parts/basic";
import { Switch, TextField } from "../parts/form";
import { useText } from "../text";
import { LanguageChoice } from "./settings";

export function SignIn() {
  const t = useText();
  const [key, setKey] = useState("");
  const [isRemembered, setIsRemembered] = useState(true);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const enter = async () => {
    setIsBusy(true);
    setError(null);
    try {
      await ask(Viewer, {}, key.trim());
      client.clear();
      signIn(key.trim(), isRemembered);
    } catch (refusal) {
      setError(refusal as Error);
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <main className="door">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          enter();
        }}
      >
        <Mark />
        <Heading>{t.signInTo}</Heading>
        <TextField
          label={t.apiKey}
          type="password"
          value={key}
          onText={setKey}
          autoComplete="current-password"
          required
          hint={t.whereIsTheKey}
        />
        <Switch label={t.staySignedIn} isOn={isRemembered} onSwitch={setIsRemembered} />
        <Problem error={error} />
        <Button kind="primary" type="submit" isBusy={isBusy}>
          {t.signIn}
        </Button>
        <LanguageChoice />
      </form>
    </main>
  );
}
