import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** `VOLLEY_SERVER=http://127.0.0.1:8080 npx vite` shows the page while it is edited, with that server's data. */
const server = process.env.VOLLEY_SERVER ?? "http://127.0.0.1:8080";
const machines = ["/graphql", "/api", "/files", "/blobs", "/artifacts", "/ready"];

export default defineConfig({
  plugins: [react()],
  build: { outDir: "build", assetsInlineLimit: 0, modulePreload: { polyfill: false }, reportCompressedSize: false },
  server: { proxy: Object.fromEntries(machines.map((path) => [path, server])) },
});
