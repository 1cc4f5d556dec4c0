/** Icons as strokes on a 24 × 24 grid, drawn for this page. They never stand alone: a word or a label is beside them. */

const SHAPES = {
  queue: "M4 6h16M4 12h16M4 18h10",
  run: "M7 4.5v15l12-7.5z",
  job: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12L4 7.5",
  settings: "M4 7h9M19 7h1M4 17h1M11 17h9M16 5v4M8 15v4",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  check: "M5 12.5l4.5 4.5L19 7.5",
  copy: "M9 9h10v11H9zM5 15V4h10",
  alert: "M12 4l9 16H3zM12 10v4.5M12 17.2v.1",
  search: "M10.5 4a6.5 6.5 0 110 13 6.5 6.5 0 010-13zM15.5 15.5L20 20",
  stop: "M7 7h10v10H7z",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  rocket: "M14 4c4-1 6 0 6 0s1 2 0 6c-1 3-4 6-7 8l-7-7c2-3 5-6 8-7zM6 11l-3 1 3 3M13 18l-1 3-3-3M15 9h.1",
  back: "M14 6l-6 6 6 6",
  chart: "M4 4v16h16M7 15l4-5 3 3 5-7",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  text: "M5 6h14M5 10h14M5 14h9M5 18h11",
  agent: "M5 8h14v10H5zM12 8V4M9 12v2M15 12v2",
  menu: "M4 7h16M4 12h16M4 17h16",
  key: "M8 15a4 4 0 110-8 4 4 0 010 8zM12 11h9M18 11v3.5M15 11v2.5",
  clock: "M12 4a8 8 0 110 16 8 8 0 010-16zM12 8v4.5l3 2",
  next: "M10 6l6 6-6 6",
  fold: "M6 10l6 6 6-6",
  info: "M12 4a8 8 0 110 16 8 8 0 010-16zM12 11v5M12 8v.1",
  people:
    "M9 4.5a3.5 3.5 0 110 7 3.5 3.5 0 010-7zM3 20c0-4 2.5-6 6-6s6 2 6 6M16 5a3.5 3.5 0 010 6.5M17.5 14.5c2.3.7 3.5 2.5 3.5 5.5",
  down: "M12 4v11M7 11l5 5 5-5M5 20h14",
  out: "M10 5H5v14h5M14 8l4 4-4 4M18 12H9",
  code: "M8 7l-5 5 5 5M16 7l5 5-5 5",
  home: "M4 11l8-7 8 7M6 10v10h12V10",
  node: "M4 5h16v6H4zM4 13h16v6H4zM7.5 8h.1M7.5 16h.1M11 8h6M11 16h6",
  cluster: "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z",
} as const;

export type IconName = keyof typeof SHAPES;

export const Icon = ({ name }: { name: IconName }) => (
  <svg className="icon" viewBox="0 0 24 24" aria-hidden="true">
    <path d={SHAPES[name]} />
  </svg>
);
