// The page's own modules, for tests of what needs neither a browser nor a server.
import { join } from "node:path";
import { createServer } from "vite";

/** Gives `load`, which reads a module below `src`, and `end`. */
export async function openSource() {
  const server = await createServer({
    root: join(import.meta.dirname, ".."),
    configFile: false,
    appType: "custom",
    logLevel: "error",
    optimizeDeps: { noDiscovery: true },
    server: { middlewareMode: true, ws: false, watch: null },
  });
  return { load: (path) => server.ssrLoadModule(`/src/${path}`), end: () => server.close() };
}
