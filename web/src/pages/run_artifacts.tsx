/** What a run logged as artifacts, checkpoints above all, with their files to download. */
import { Artifacts } from "../api/generated";
import { useAsk } from "../api/live";
import { Ago, Badge } from "../parts/basic";
import { bytesText } from "../parts/figures";
import { Icon } from "../parts/icon";
import { useText } from "../text";
import type { Where } from "./run";
import { local } from "./run_files";

export function ArtifactList({ where }: { where: Where }) {
  const t = useText();
  const answer = useAsk(Artifacts, where);
  const found = (answer.data?.project?.run?.outputArtifacts?.edges ?? []).flatMap(({ node }) => node ?? []);
  // A job is how a run can be launched again; it has its own page.
  const shown = found.filter(({ artifactType }) => artifactType.name !== "job");
  if (shown.length === 0) return null;
  return (
    <section className="panel">
      <div>
        <h2>{t.artifacts}</h2>
        <p className="faint small">{t.artifactsText}</p>
      </div>
      <ul className="artifacts">
        {shown.map((artifact) => (
          <li key={artifact.id}>
            <details>
              <summary>
                <span className="strong">
                  {artifact.artifactSequence.name}:v{artifact.versionIndex ?? 0}
                </span>
                <Badge>{artifact.artifactType.name}</Badge>
                {artifact.aliases.map(({ alias }) => (
                  <span key={alias} className="chip">
                    {alias}
                  </span>
                ))}
                <span className="faint small">
                  {bytesText(Number(artifact.size))} · <Ago at={artifact.createdAt} />
                </span>
              </summary>
              <ul className="rows">
                {(artifact.files?.edges ?? []).map(
                  ({ node }) =>
                    node && (
                      <li key={node.name}>
                        <a className="cut" href={local(node.directUrl ?? "")} download={node.name.split("/").at(-1)}>
                          <Icon name="down" /> {node.name}
                        </a>
                        <span className="faint">{bytesText(node.sizeBytes ?? 0)}</span>
                      </li>
                    ),
                )}
              </ul>
            </details>
          </li>
        ))}
      </ul>
    </section>
  );
}
