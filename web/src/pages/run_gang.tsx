/** Who is where: each rank with its pod, node and GPUs, and how it does; a click leads to what it printed. */
import type { Launched, Seat } from "../api/story";
import { State } from "../parts/basic";
import { Icon } from "../parts/icon";
import { Link, pathOf } from "../router";
import { useText } from "../text";
import type { Where } from "./run";

/** Agents of others may note something else. */
export const seatsOf = (item: Launched | null | undefined): Seat[] => (Array.isArray(item?.place) ? item.place : []);

export function GangMap({ where, item }: { where: Where; item: Launched }) {
  const t = useText();
  const seats = seatsOf(item);
  if (seats.length === 0) return null;
  const nodes = byNode(seats);
  const placed = nodes.filter(([node]) => node !== null).length;
  const isPlural = seats.length > 1;
  return (
    <section className="panel gang">
      <div className="panel-head">
        <h2>{isPlural ? t.gangMap : t.whereItRuns}</h2>
        {isPlural && <span className="faint small">{t.gangMapOf(seats.length, placed)}</span>}
      </div>
      <div className="gang-nodes">
        {nodes.map(([node, own]) => (
          <section key={node} className={`gang-node ${node === null ? "nowhere" : ""}`} aria-label={node ?? t.notPlaced}>
            <h3>
              <Icon name={node === null ? "clock" : "node"} />
              <span className="cut">{node ?? t.notPlaced}</span>
              <GpuCount seats={own} />
            </h3>
            <ul>
              {own.map((seat) => (
                <Rank key={seat.pod} where={where} seat={seat} isPlural={isPlural} />
              ))}
            </ul>
          </section>
        ))}
      </div>
    </section>
  );
}

function GpuCount({ seats }: { seats: Seat[] }) {
  const t = useText();
  const gpus = seats.reduce((sum, seat) => sum + seat.gpus, 0);
  return gpus > 0 && <span className="badge">{t.gpusOf(gpus)}</span>;
}

function Rank({ where, seat, isPlural }: { where: Where; seat: Seat; isPlural: boolean }) {
  const t = useText();
  const phase = (seat.phase ?? "unknown").toLowerCase();
  const label = seat.label ?? seat.role;
  const logs = `${pathOf(where.entity, where.project, "runs", where.run, "logs")}${isPlural ? `?rank=${encodeURIComponent(label)}` : ""}`;
  return (
    <li>
      <Link to={logs} className={`seat ${phase}`}>
        <span className="seat-rank">
          <span className="sr-only">{t.rank} </span>
          {t.rankOf(seat.rank)}
        </span>
        <span className="seat-words">
          <span className="seat-head">
            <span className="strong cut">{label || seat.pod}</span>
            <State name={phase} />
          </span>
          <code className="cut faint" title={seat.pod}>
            {seat.pod}
          </code>
          {seat.gpus > 0 && (
            <span className="seat-gpus">
              {Array.from({ length: seat.gpus }, (_, index) => (
                <span key={seat.devices[index] ?? index} className="chip-gpu" title={seat.devices[index]}>
                  {shortDevice(seat.devices[index]) ?? t.gpu}
                </span>
              ))}
            </span>
          )}
        </span>
      </Link>
    </li>
  );
}

/** Enough of a GPU's id to tell it from its neighbours. */
export const shortDevice = (id: string | undefined | null): string | undefined =>
  id ? (id.startsWith("GPU-fake-") ? id.slice(4) : id.replace(/^(GPU|MIG)-/, "").slice(0, 8)) : undefined;

/** In the order of their first ranks; those without a node come last. */
function byNode(seats: Seat[]): [string | null, Seat[]][] {
  const nodes = new Map<string | null, Seat[]>();
  for (const seat of seats) nodes.set(seat.node, [...(nodes.get(seat.node) ?? []), seat]);
  return [...nodes].sort(([one], [other]) => Number(one === null) - Number(other === null));
}
