/** The config of a run as it was given, its summary, and what was submitted to the queue. */
import type { Story } from "../api/story";
import { toText } from "../documents";
import { Editor } from "../parts/editor";
import { useText } from "../text";
import type { RunDetails } from "./run";
import { plainConfig, plainSummary } from "./run_data";

export default function ConfigTab({ run, story }: { run: RunDetails; story: Story | undefined }) {
  const t = useText();
  const item = story?.item;
  const parts: [string, unknown][] = [
    [t.config, plainConfig(run.config)],
    [t.summary, plainSummary(run.summaryMetrics)],
    ...(item ? [[t.asSubmitted, item.spec] as [string, unknown]] : []),
    ...(item?.manifest ? [[t.manifest, item.manifest] as [string, unknown]] : []),
  ];
  return parts.map(([title, value]) => (
    <section key={title} className="panel">
      <h2>{title}</h2>
      <Editor label={title} value={toText(value)} />
    </section>
  ));
}
