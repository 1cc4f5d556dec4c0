/** What changed between two texts, line by line, with a little of what stayed around it. */

type Row = { sign: " " | "+" | "-"; text: string };
/** Lines of context around a change. */
const CONTEXT = 2;

export function Diff({ title, before, after }: { title: string; before: string; after: string }) {
  const lines = (text: string) => (text === "" ? [] : text.trimEnd().split("\n"));
  const rows = compare(lines(before), lines(after));
  const isNear = (index: number) =>
    rows.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(({ sign }) => sign !== " ");
  return (
    <figure className="diff">
      <figcaption>{title}</figcaption>
      <pre tabIndex={0}>
        {rows.map(({ sign, text }, index) =>
          isNear(index) ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name
            <span key={index} className={sign === "+" ? "added" : sign === "-" ? "removed" : ""}>
              {`${sign} ${text}\n`}
            </span>
          ) : null,
        )}
      </pre>
    </figure>
  );
}

/** By the longest common subsequence; configs have some hundred lines, so its square is small. */
export function compare(one: string[], other: string[]): Row[] {
  const lengths = Array.from({ length: one.length + 1 }, () => new Array<number>(other.length + 1).fill(0));
  const at = (i: number, j: number) => lengths[i]?.[j] ?? 0;
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      (lengths[i] as number[])[j] = one[i] === other[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const rows: Row[] = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      rows.push({ sign: " ", text: one[i] ?? "" });
      i++;
      j++;
    } else if (j >= other.length || (i < one.length && at(i + 1, j) >= at(i, j + 1))) {
      rows.push({ sign: "-", text: one[i++] ?? "" });
    } else rows.push({ sign: "+", text: other[j++] ?? "" });
  }
  return rows;
}
