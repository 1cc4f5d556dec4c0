/** A line of words, read and written as a shell does: quotes hold words together, a backslash takes the next sign as it is. */

/** Blanks, a double-quoted, a single-quoted or an escaped part, plain signs; a quote that nobody closes is a plain sign too. */
const PARTS = /(\s+)|"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)|[^\s"'\\]+|./gs;

export function words(text: string): string[] {
  const found: string[] = [];
  // Null between words: an empty word is one, too.
  let word: string | null = null;
  for (const [part, blank, double, single, escaped] of text.matchAll(PARTS)) {
    if (blank === undefined) {
      word = (word ?? "") + (double?.replace(/\\(["\\$`])/g, "$1") ?? single ?? escaped ?? part);
      continue;
    }
    if (word !== null) found.push(word);
    word = null;
  }
  return word === null ? found : [...found, word];
}

/** The line that is read as these words. */
export const joined = (list: string[]): string =>
  list.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
