/** What is wrong with a document, as a list: where, why, and a button that mends it. It says the same as the marks in the editor. */
import { type Finding, mended, type Report } from "../api/judge";
import { useText } from "../text";
import { Button } from "./basic";
import { Icon } from "./icon";

/** More than this is not read; mending the first ones takes others with them. */
const SHOWN_MAX = 12;
const WEIGHT = { error: 0, warning: 1, note: 2 };

type Props = { report: Report; onText: (text: string) => void; onPlace: (finding: Finding) => void };

export function Findings({ report, onText, onPlace }: Props) {
  const t = useText();
  const { findings, fixed, text } = report;
  const sorted = [...findings].sort((one, other) => WEIGHT[one.severity] - WEIGHT[other.severity] || one.line - other.line);
  if (findings.length === 0)
    return (
      <p className="verdict good" role="status">
        <Icon name="check" /> {t.nothingWrong}
      </p>
    );
  return (
    <section className="findings" aria-label={t.findings}>
      <header>
        <p role="status" className="verdict">
          {t.foundCount(findings.filter(({ severity }) => severity === "error").length, findings.length)}
        </p>
        {fixed !== undefined && (
          <Button icon="check" onClick={() => onText(fixed)}>
            {t.fixAll}
          </Button>
        )}
      </header>
      <ul>
        {sorted.slice(0, SHOWN_MAX).map((finding) => (
          <li key={`${finding.code} ${finding.line} ${finding.column} ${finding.message}`} className={finding.severity}>
            <button type="button" className="at" onClick={() => onPlace(finding)}>
              {t.line(finding.line)}
            </button>
            <div>
              <p>
                <span className="sr-only">{t.severities[finding.severity]}: </span>
                {t.rules[finding.code] && <strong>{t.rules[finding.code]} · </strong>}
                {finding.message} <span className="faint">{finding.code}</span>
              </p>
              {finding.suggestion && <p className="hint">{finding.suggestion}</p>}
            </div>
            {finding.edits && (
              <Button
                kind="quiet"
                onClick={() => onText(mended(text, finding.edits ?? []))}
                aria-label={t.fixOf(finding.code, finding.line)}
              >
                {t.fix}
              </Button>
            )}
          </li>
        ))}
      </ul>
      {sorted.length > SHOWN_MAX && <p className="hint">{t.andMore(sorted.length - SHOWN_MAX)}</p>}
    </section>
  );
}
