// The server: one function a request. A link that does not work, a server that is away, and a refusal are three things.

/** The address of this page's person: everything that may be asked stands below it. */
const base = location.pathname.replace(/\/$/, "") + "/api/";

export class Away extends Error {}
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The answer's JSON, null for none. Throws Away or Refused. */
export async function request(method, path, body, options = {}) {
  let answer;
  try {
    answer = await fetch(base + path, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      ...options,
    });
  } catch (error) {
    throw new Away(String(error));
  }
  if (answer.status >= 500) throw new Away(String(answer.status));
  const told = answer.headers.get("Content-Type")?.startsWith("application/json") ? await answer.json() : null;
  if (!answer.ok) throw new Refused(answer.status, told?.message ?? answer.statusText);
  return told;
}

/** The same until the server is there again; `tell` hears of each failure (true) and of the success (false). */
export async function persist(method, path, body, tell) {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      const told = await request(method, path, body);
      tell(false);
      return told;
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      tell(true);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

export const address = (path) => base + path;
