/** Requests to the server: GraphQL operations by their generated types, and the few plain endpoints. */
import { hear } from "./clock";
import { end, leave, PAGE } from "./session";

/** `types` is never there; it carries the types of what goes in and comes out. */
export type Operation<Data, Variables> = { name: string; text: string; types?: (variables: Variables) => Data };

/** The server answered, and said no: its own sentence is the message. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** There was no answer. */
export class Away extends Error {}

/** An answer that takes longer will not come. */
const PATIENCE_MS = 60_000;

export async function ask<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables): Promise<Data> {
  const answer = await send("POST", "/graphql", { operationName: operation.name, query: operation.text, variables });
  return (answer as { data: Data }).data;
}

export async function send(method: string, path: string, body?: unknown): Promise<unknown> {
  const headers = { "Content-Type": "application/json", ...PAGE };
  let response: Response;
  let answer: { error?: unknown; errors?: { message: string }[] };
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    response = await fetch(path, { method, headers, signal, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    hear(response.headers.get("date"));
    answer = await response.json();
  } catch (cause) {
    throw new Away("the server cannot be reached", { cause });
  }
  if (response.ok && !answer.errors?.length) return answer;
  if (response.status === 401) end();
  const told = answer.errors?.[0]?.message ?? answer.error;
  throw new Refusal(typeof told === "string" ? told : response.statusText, response.status);
}

/** What one signs in with. */
export type Proof = { key: string } | { username: string; password: string };

export const signIn = (proof: Proof): Promise<unknown> => send("POST", "/api/v1/session", proof);

export async function signOut(): Promise<void> {
  await send("DELETE", "/api/v1/session");
  leave();
}
