/** Tabs are places: each has its own address, so that it can be linked to and survives a reload. */
import { Link } from "../router";

export function Tabs({
  label,
  tabs,
  current,
}: {
  label: string;
  tabs: { name: string; title: string; to: string; count?: number | null }[];
  current: string;
}) {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map(({ name, title, to, count }) => (
        <Link key={name} to={to} aria-current={name === current ? "page" : undefined}>
          {title}
          {count !== undefined && count !== null && <span className="count">{count}</span>}
        </Link>
      ))}
    </nav>
  );
}
