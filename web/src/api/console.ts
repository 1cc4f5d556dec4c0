/** The lines of a run's console: ranges of them, and the numbers of those that fit. The server says which tell of a failure. */
import { send } from "./client";
import { runPath, type Where } from "./story";

export type Line = { number: number; time: string | null; label: string | null; text: string; is_failure: boolean };
export type Sought = { text?: string; label?: string; failure?: boolean };

/** Lines are read in pieces of this many. */
export const PIECE = 1000;
/** So many pieces are kept; what was scrolled past long ago is read again. */
const PIECES_MAX = 120;

export class Lines {
  private pieces = new Map<number, { lines: Promise<Line[]>; count: number }>();
  private known = new Map<number, Line[]>();
  readonly labels = new Set<string>();
  constructor(private where: Where) {}

  line(number: number): Line | undefined {
    return this.known.get(Math.floor(number / PIECE))?.[number % PIECE];
  }

  /** A piece that was cut short, because the run had not written it all, is read again. */
  piece(index: number, total: number): Promise<Line[]> {
    const wanted = Math.min(total - index * PIECE, PIECE);
    const kept = this.pieces.get(index);
    if (kept && kept.count >= wanted) return kept.lines;
    const read = send("GET", `${runPath(this.where)}/lines?from=${index * PIECE}&count=${PIECE}`).then((answer) => {
      const { lines } = answer as { lines: Line[] };
      this.known.set(index, lines);
      for (const { label } of lines) if (label) this.labels.add(label);
      return lines;
    });
    this.pieces.delete(index);
    this.pieces.set(index, { lines: read, count: wanted });
    read.catch(() => this.pieces.delete(index));
    for (const old of [...this.pieces.keys()].slice(0, -PIECES_MAX)) {
      this.pieces.delete(old);
      this.known.delete(old);
    }
    return read;
  }

  /** The numbers of lines that fit, part by part, until `tell` has enough. */
  async search(sought: Sought, from: number, tell: (numbers: number[], isLast: boolean) => boolean): Promise<void> {
    const words = new URLSearchParams(Object.entries(sought).map(([name, value]) => [name, String(value)]));
    for (let at: number | null = from; at !== null; ) {
      words.set("from", String(at));
      const answer = await send("GET", `${runPath(this.where)}/lines/search?${words}`);
      const { numbers, next } = answer as { numbers: number[]; next: number | null };
      if (!tell(numbers, next === null)) return;
      at = next;
    }
  }
}
