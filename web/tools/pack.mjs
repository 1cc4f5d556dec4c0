// Compresses what Vite built into `dist`, which the server's build embeds. Files that did not change are left alone, so that
// cargo has nothing to do either; files that are no longer built are removed.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const web = join(import.meta.dirname, "..");
const [build, dist] = [join(web, "build"), join(web, "dist")];

const filesBelow = (folder) =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : [path];
  });

const packed = new Map();
for (const path of filesBelow(build)) {
  const bytes = readFileSync(path);
  const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } };
  packed.set(join(dist, `${relative(build, path)}.br`), brotliCompressSync(bytes, brotli));
  packed.set(join(dist, `${relative(build, path)}.gz`), gzipSync(bytes, { level: 9 }));
}
for (const path of filesBelow(dist)) {
  if (!packed.has(path) && !path.endsWith(".gitignore")) rmSync(path);
}
for (const [path, bytes] of packed) {
  if (existsSync(path) && readFileSync(path).equals(bytes)) continue;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, bytes);
}
