/** One's own password: with one, a person signs in without a key or a link. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../api/client";
import { Button, Problem } from "../parts/basic";
import { TextField } from "../parts/form";
import { pathOf } from "../router";
import { useText } from "../text";
import { useViewer } from "../viewer";

export function Password() {
  const t = useText();
  const { username } = useViewer();
  const [password, setPassword] = useState("");
  const [current, setCurrent] = useState("");
  const save = useMutation({
    mutationFn: () => send("PUT", `/api/v1/users${pathOf(username)}/password`, { password, ...(current !== "" && { current }) }),
    onSuccess: () => {
      setPassword("");
      setCurrent("");
    },
  });
  return (
    <section className="panel">
      <h2>{t.password}</h2>
      <p className="lead">{t.passwordText}</p>
      <form
        className="inline-form wide"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        {/* Browsers that keep passwords ask for whom. */}
        <input hidden autoComplete="username" value={username} readOnly />
        <TextField
          label={t.currentPassword}
          type="password"
          autoComplete="current-password"
          value={current}
          onText={setCurrent}
          placeholder={t.ifThereIsOne}
        />
        <TextField
          label={t.newPassword}
          type="password"
          autoComplete="new-password"
          value={password}
          onText={setPassword}
          required
        />
        <Button type="submit" isBusy={save.isPending}>
          {t.setPassword}
        </Button>
      </form>
      <Problem error={save.error} />
      <p role="status" className="verdict good">
        {save.isSuccess && t.passwordSet}
      </p>
    </section>
  );
}
