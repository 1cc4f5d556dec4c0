/** The config of a run as it was given, its summary, and what was submitted to the queue. */
import { toText } from "../documents";
import { Editor } from "../parts/editor";
import { useText } from "../text";
import type { RunDetails, Where } from "./run";
import { plainConfig, plainSummary } from "./run_data";
import { useItemOf } from "./run_item";

export default function ConfigTab({ where, run }: { where: Where; run: RunDetails }) {
  const t = useText();
  const from = useItemOf(where, run);
  const parts: [string, unknown][] = [
    [t.config, plainConfig(run.config)],
    [t.summary, plainSummary(run.summaryMetrics)],
    ...(from ? [[t.asSubmitted, from.item.runSpec] as [string, unknown]] : []),
  ];
  return parts.map(([title, value]) => (
    <section key={title} className="panel">
      <h2>{title}</h2>
      <Editor label={title} value={toText(value)} />
    </section>
  ));
}
