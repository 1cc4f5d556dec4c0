/** The frame of every page: who is signed in, where one can go, and whether the server is there. */
import { Component, type ReactNode, Suspense, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { useIsLive, useLive } from "./api/live";
import { isBelieved, onSession } from "./api/session";
import { Sidebar } from "./pages/sidebar";
import { SignIn } from "./pages/sign_in";
import { Button, Heading } from "./parts/basic";
import { Icon } from "./parts/icon";
import { useTheme } from "./preferences";
import { match, usePath } from "./router";
import { PAGES } from "./routes";
import { useText } from "./text";
import { useViewer, ViewerProvider } from "./viewer";

export function App() {
  useTheme();
  const t = useText();
  const isSignedIn = useSyncExternalStore(onSession, isBelieved);
  useEffect(() => {
    document.documentElement.lang = t.locale;
  }, [t]);
  return <Guard>{isSignedIn ? <SignedIn /> : <SignIn />}</Guard>;
}

function SignedIn() {
  const hasBegun = useLive();
  return (
    <>
      <Banner />
      {hasBegun && (
        <ViewerProvider>
          <Frame />
        </ViewerProvider>
      )}
    </>
  );
}

function Frame() {
  const t = useText();
  const path = usePath();
  const main = useRef<HTMLElement>(null);
  const [isMenuOpen, setIsMenuOpen] = useState(false);
  const found = PAGES.map((page) => ({ page, values: match(page.path, path) })).find(({ values }) => values !== null);
  const { entity } = useViewer();
  const place = found?.page.name ?? "";
  const last = useRef(place);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the path is what makes it run
  useEffect(() => setIsMenuOpen(false), [path]);
  // A new place begins at its top, also for who hears it; tabs of one place move neither eye nor ear.
  useEffect(() => {
    if (last.current === place) return;
    last.current = place;
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [place]);
  return (
    <div className="frame">
      <a className="skip" href="#main">
        {t.skip}
      </a>
      <div className="top">
        <Button
          kind="quiet"
          icon="menu"
          aria-expanded={isMenuOpen}
          aria-label={t.menu}
          onClick={() => setIsMenuOpen(!isMenuOpen)}
        />
        <span className="brand">
          <Mark /> Volley
        </span>
      </div>
      <Sidebar isOpen={isMenuOpen} path={path} values={found?.values ?? {}} />
      <main id="main" ref={main} tabIndex={-1}>
        <Guard key={path}>
          <Suspense fallback={<div className="skeleton" role="status" aria-label={t.loading} />}>
            {found ? found.page.show({ entity, ...found.values }) : <Heading>{t.noSuchPage}</Heading>}
          </Suspense>
        </Guard>
      </main>
    </div>
  );
}

export const Mark = () => <span className="mark" aria-hidden="true" />;

/** Says that the server is away, when it has been for more than a moment. */
function Banner() {
  const t = useText();
  const isLive = useIsLive();
  return (
    <div role="status">
      {!isLive && (
        <div className="banner">
          <Icon name="alert" /> {t.serverAway}
        </div>
      )}
    </div>
  );
}

/** A fault in one place must not take the whole page with it. */
class Guard extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null };
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  override render() {
    return this.state.error ? (
      <Fault error={this.state.error} onRetry={() => this.setState({ error: null })} />
    ) : (
      this.props.children
    );
  }
}

function Fault({ error, onRetry }: { error: Error; onRetry: () => void }) {
  const t = useText();
  return (
    <div className="empty" role="alert">
      <h2>{t.pageFailed}</h2>
      <p className="empty-text">{error.message}</p>
      <Button kind="primary" onClick={onRetry}>
        {t.tryAgain}
      </Button>
    </div>
  );
}
