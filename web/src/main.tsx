/** Starts the page. */
import { QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { client } from "./api/live";
import { App } from "./app";
import "./style/base.css";
import "./style/parts.css";
import "./style/views.css";
import "./style/run.css";

// A page that was open while the server was replaced asks for files that are gone: load the new one.
addEventListener("vite:preloadError", () => location.reload());

const root = document.getElementById("root");
if (!root) throw new Error("index.html has the element `root`");
createRoot(root).render(
  <QueryClientProvider client={client}>
    <App />
  </QueryClientProvider>,
);
