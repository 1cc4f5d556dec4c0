/** The colours of things that must be told apart: lines, ranks, holders. */

/** Told apart by people who do not see all colours, on light and on dark. */
export const COLOURS = ["#5c7cfa", "#e8590c", "#099268", "#c2255c", "#9c36b5", "#1098ad", "#a17b00", "#868e96"];
