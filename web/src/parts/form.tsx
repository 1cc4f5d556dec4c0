/** Form fields: each has a label, may have a hint, and says what is wrong beside it. */
import { type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes, useId, useState } from "react";
import { Button } from "./basic";

type FieldProps = { label: string; hint?: ReactNode; error?: string | undefined; children: (ids: Ids) => ReactNode };
type Ids = { id: string; "aria-describedby": string | undefined; "aria-invalid": true | undefined };

export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": described || undefined, "aria-invalid": error ? true : undefined })}
      {hint && (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error && (
        <p className="error" id={`${id}-error`}>
          {error}
        </p>
      )}
    </div>
  );
}

type Shared = { label: string; hint?: ReactNode; error?: string | undefined };

export function TextField({
  label,
  hint,
  error,
  onText,
  ...rest
}: Shared & { onText: (text: string) => void } & InputHTMLAttributes<HTMLInputElement>) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <input autoComplete="off" spellCheck={false} {...rest} {...ids} onChange={(event) => onText(event.target.value)} />
      )}
    </Field>
  );
}

type Choice = { value: string; label: string; isDisabled?: boolean };
type SelectProps = Shared & { choices: Choice[]; onText: (text: string) => void } & SelectHTMLAttributes<HTMLSelectElement>;

export function SelectField({ label, hint, error, choices, onText, ...rest }: SelectProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <select {...rest} {...ids} onChange={(event) => onText(event.target.value)}>
          {choices.map(({ value, label, isDisabled }) => (
            <option key={value} value={value} disabled={isDisabled}>
              {label}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** One of a few, all of them visible. */
export function Segmented<Value extends string>({ label, value, choices, onChoose }: SegmentedProps<Value>) {
  const name = useId();
  return (
    <fieldset className="segmented">
      <legend className="sr-only">{label}</legend>
      {choices.map(([key, text]) => (
        <label key={key}>
          <input type="radio" name={name} checked={key === value} onChange={() => onChoose(key)} />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  );
}
type SegmentedProps<Value> = {
  label: string;
  value: Value;
  choices: readonly (readonly [Value, string])[];
  onChoose: (value: Value) => void;
};

export function Switch({
  label,
  isOn,
  onSwitch,
  hint,
}: {
  label: string;
  isOn: boolean;
  onSwitch: (isOn: boolean) => void;
  hint?: string;
}) {
  return (
    <label className="switch">
      <input
        type="checkbox"
        role="switch"
        checked={isOn}
        aria-checked={isOn}
        onChange={(event) => onSwitch(event.target.checked)}
      />
      <span>
        {label}
        {hint && <span className="hint">{hint}</span>}
      </span>
    </label>
  );
}

/** Makes something that needs but a name; the field is empty again once it is made. */
export function NameForm({ label, deed, isBusy, make }: NameFormProps) {
  const [name, setName] = useState("");
  return (
    <form
      className="inline-form"
      onSubmit={(event) => {
        event.preventDefault();
        make(name, { onSuccess: () => setName("") });
      }}
    >
      <TextField label={label} value={name} onText={setName} required />
      <Button type="submit" icon="plus" isBusy={isBusy}>
        {deed}
      </Button>
    </form>
  );
}
type NameFormProps = {
  label: string;
  deed: string;
  isBusy: boolean;
  make: (name: string, then: { onSuccess: () => void }) => void;
};
