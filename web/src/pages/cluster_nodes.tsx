/** Nodes × GPUs: one square for each GPU, coloured by who holds it, how busy it is or how full its memory is. */
import { useState } from "react";
import type { Gpu, Holder, Node } from "../api/clusters";
import { State } from "../parts/basic";
import { COLOURS } from "../parts/colours";
import { Segmented } from "../parts/form";
import { useText } from "../text";
import { WorkName } from "./cluster";
import { shortDevice } from "./run_gang";

type Heat = "holders" | "utilisation" | "memory";

export function HeatMap({ nodes, total }: { nodes: Node[]; total: number }) {
  const t = useText();
  const [heat, setHeat] = useState<Heat>("holders");
  const colours = coloursOf(nodes);
  return (
    <section className="panel">
      <div className="panel-head">
        <h2>{t.nodes}</h2>
        <Segmented
          label={t.heat}
          value={heat}
          choices={[
            ["holders", t.heatHolders],
            ["utilisation", t.heatUtilisation],
            ["memory", t.heatMemory],
          ]}
          onChoose={setHeat}
        />
      </div>
      <ul className="nodes">
        {nodes.map((node) => (
          <NodeRow key={node.name} node={node} heat={heat} colours={colours} />
        ))}
      </ul>
      {total > nodes.length && <p className="faint small">{t.moreNodes(total - nodes.length)}</p>}
    </section>
  );
}

function NodeRow({ node, heat, colours }: { node: Node; heat: Heat; colours: Map<string, string> }) {
  const t = useText();
  return (
    <li className="node">
      <div className="node-words">
        <span className="strong cut">{node.name}</span>
        <span className="badges">
          <State name={node.state} />
          {node.product && <span className="badge">{node.product}</span>}
          {node.is_pretended && <span className="badge">{t.pretended}</span>}
        </span>
      </div>
      {node.gpus.length > 0 ? (
        <ul className="gpu-cells" aria-label={`${t.gpus}: ${node.name}`}>
          {node.gpus.map((gpu, index) => (
            <Cell key={gpu.id ?? `#${index}`} gpu={gpu} index={index} node={node} heat={heat} colours={colours} />
          ))}
        </ul>
      ) : (
        <span className="faint small">{t.noGpus}</span>
      )}
      <div className="node-shares">
        <Meter name={t.cpu} {...node.cpu} size={1000} />
        <Meter name={t.memory} {...node.memory} size={2 ** 30} unit=" GiB" />
      </div>
    </li>
  );
}

type CellProps = { gpu: Gpu; index: number; node: Node; heat: Heat; colours: Map<string, string> };

function Cell({ gpu, index, node, heat, colours }: CellProps) {
  const t = useText();
  const holders = gpu.held_by.flatMap((number) => node.pods[number] ?? []);
  const memory = gpu.memory_total_mib ? Math.round((100 * (gpu.memory_used_mib ?? 0)) / gpu.memory_total_mib) : null;
  const percent = heat === "utilisation" ? gpu.utilisation_percent : heat === "memory" ? memory : null;
  const names = holders.map((holder) => nameOf(holder) ?? t.somebodyElse).join(", ");
  const told = (value: number | null) => (value === null ? t.notTold : `${value} %`);
  const words = [
    `${t.gpuOf(index, node.name)}${gpu.id ? ` (${shortDevice(gpu.id)})` : ""}`,
    names || t.free,
    `${t.utilisation} ${told(gpu.utilisation_percent)}`,
    `${t.memory} ${told(memory)}`,
  ].join("\n");
  const first = holders[0];
  const style =
    heat === "holders"
      ? first && { background: colours.get(keyOf(first)) }
      : percent !== null && { background: `color-mix(in oklab, var(--accent-fill) ${6 + 0.54 * percent}%, var(--raised))` };
  const isDark = heat === "holders" && Boolean(first);
  const shown = heat === "holders" ? index : percent === null ? "–" : percent;
  return (
    <li
      className={`gpu-cell ${first || percent !== null ? "" : "free"} ${isDark ? "filled" : ""} ${gpu.is_healthy ? "" : "sick"}`}
      style={style || undefined}
      title={words}
    >
      <span aria-hidden="true">{shown}</span>
      <span className="sr-only">{words}</span>
    </li>
  );
}

type MeterProps = { name: string; held: number; total: number; size: number; unit?: string };

/** What is promised of what there is. */
function Meter({ name, held, total, size, unit = "" }: MeterProps) {
  const share = total > 0 ? Math.min(1, held / total) : 0;
  const show = (value: number) =>
    Intl.NumberFormat("en", { maximumFractionDigits: value < 10 * size ? 1 : 0 }).format(value / size);
  return (
    <div className="share">
      <span className="faint small">{name}</span>
      <span className="share-bar" aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span className="small number">
        {show(held)} / {show(total)}
        {unit}
      </span>
    </div>
  );
}

const nameOf = (holder: Holder): string | undefined =>
  holder.work?.name ?? holder.work?.run?.name ?? (holder.pod ? `${holder.namespace}/${holder.pod}` : undefined);

/** Pods of one launch belong together. */
const keyOf = (holder: Holder): string => holder.work?.id ?? (holder.is_hidden ? "" : `${holder.namespace}/${holder.pod}`);

/** A colour for each holder, the same wherever it is shown. */
function coloursOf(nodes: Node[]): Map<string, string> {
  const keys = new Set(nodes.flatMap((node) => node.pods.filter(({ gpus }) => gpus > 0).map(keyOf)));
  // Dark enough for what is written on them.
  const shade = (index: number) => `color-mix(in oklab, ${COLOURS[index % COLOURS.length]} 78%, black)`;
  return new Map([...keys].map((key, index) => [key, shade(index)]));
}

type Held = { holder: Holder; nodes: Set<string>; pods: number; gpus: number };

/** Who holds what: one row for each launch, and each pod that somebody made by hand. */
export function Holders({ nodes }: { nodes: Node[] }) {
  const t = useText();
  const colours = coloursOf(nodes);
  const held = new Map<string, Held>();
  for (const node of nodes)
    for (const holder of node.pods) {
      const known = held.get(keyOf(holder)) ?? { holder, nodes: new Set(), pods: 0, gpus: 0 };
      known.nodes.add(node.name);
      held.set(keyOf(holder), { ...known, pods: known.pods + 1, gpus: known.gpus + holder.gpus });
    }
  const rows = [...held].sort(([, one], [, other]) => other.gpus - one.gpus);
  return (
    <section className="panel">
      <h2>{t.holders}</h2>
      {rows.length === 0 && <p className="faint">{t.holdersNone}</p>}
      <ul className="rows holders">
        {rows.map(([key, { holder, nodes, pods, gpus }]) => (
          <li key={key}>
            <span className="swatch" style={{ background: colours.get(key) ?? "var(--line-strong)" }} />
            <span className="two-lines">
              <WorkName work={holder.work} fallback={nameOf(holder) ?? t.somebodyElse} />
              <span className="faint small cut">
                {[holder.work?.user, holder.work?.queue, [...nodes].join(", ")].filter(Boolean).join(" · ")}
              </span>
            </span>
            <span className="badges">
              <span className="badge">{t.podsOf(pods)}</span>
              {gpus > 0 && <span className="chip">{t.gpusOf(gpus)}</span>}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
