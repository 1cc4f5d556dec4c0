/** What the client's system measures are in: it says so only in their names. */

type Unit = { unit: string; size: number };

/** `size` makes bytes of what is counted in larger units. */
const UNITS: [RegExp, Unit][] = [
  [/Bytes$|^network\.(sent|recv)$/, { unit: "B", size: 1 }],
  [/MB$|^disk\.(.*\.)?(in|out)$/, { unit: "B", size: 2 ** 20 }],
  [/GB$/, { unit: "B", size: 2 ** 30 }],
  [/percent$|^(cpu|memory|disk)$|^gpu\.(process\.)?(gpu|memory|memoryAllocated)$/i, { unit: "%", size: 1 }],
  [/Watts$/, { unit: "W", size: 1 }],
  [/temp$/i, { unit: "°C", size: 1 }],
  [/Clock$/, { unit: "MHz", size: 1 }],
];

/** By the name without `system.`, and without the number of the GPU, core or disk. */
export const unitOf = (name: string): Unit => UNITS.find(([pattern]) => pattern.test(name))?.[1] ?? { unit: "", size: 1 };
