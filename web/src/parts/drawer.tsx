/** Panels over the page, by the browser's own dialog: it holds the focus, hides what is behind, and closes by Escape. */
import { type ReactNode, useEffect, useId, useRef } from "react";
import { useText } from "../text";
import { Button } from "./basic";

type Props = {
  title: string;
  onClose: () => void;
  kind?: "drawer" | "dialog";
  children: ReactNode;
  /** Beside what one fills in, where there is room; below it elsewhere. */
  aside?: ReactNode;
  /** What keeps it from being sent: where the button is, so that it is seen. */
  problem?: ReactNode;
  footer?: ReactNode;
};

/** It does not close by a click outside of it: somebody may be typing in it. */
export function Drawer({ title, onClose, kind = "drawer", children, aside, problem, footer }: Props) {
  const t = useText();
  const dialog = useRef<HTMLDialogElement>(null);
  const name = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    // A form begins at its first field, not at the button that closes it.
    shown?.querySelector<HTMLElement>(".drawer-body :is(input:not([type=radio]), select)")?.focus();
    return () => shown?.close();
  }, []);
  const cancel = (event: { preventDefault: () => void }) => {
    event.preventDefault();
    onClose();
  };
  return (
    <dialog ref={dialog} className={aside ? `${kind} wide` : kind} aria-labelledby={name} onCancel={cancel}>
      <header>
        <h2 id={name}>{title}</h2>
        <Button kind="quiet" icon="close" onClick={onClose} aria-label={t.close} />
      </header>
      <div className="drawer-body">
        {children}
        {aside}
      </div>
      {problem && <div className="drawer-problem">{problem}</div>}
      {footer && <footer>{footer}</footer>}
    </dialog>
  );
}

/** What was typed earlier is still there; this takes it away. */
export function StartOver({ deed }: { deed: (() => void) | null }) {
  const t = useText();
  return (
    deed && (
      <Button kind="quiet" className="start-over" onClick={deed}>
        {t.startOver}
      </Button>
    )
  );
}

/** Asks once more before something that cannot be undone. */
export function Confirm({ title, text, deed, onYes, onNo, error, isBusy = false }: ConfirmProps) {
  const t = useText();
  const footer = (
    <>
      <Button onClick={onNo}>{t.cancel}</Button>
      <Button kind="danger" onClick={onYes} isBusy={isBusy}>
        {deed}
      </Button>
    </>
  );
  return (
    <Drawer kind="dialog" title={title} onClose={onNo} footer={footer}>
      <p>{text}</p>
      {error}
    </Drawer>
  );
}
type ConfirmProps = {
  title: string;
  text: string;
  deed: string;
  onYes: () => void;
  onNo: () => void;
  error?: ReactNode;
  isBusy?: boolean;
};
