// Drafts: what was chosen or typed goes to the server within a quarter of a second, one request at a time.

import { Away, request } from "./api.js";

const AT_ONCE = 10; // what one event changes travels together
const PAUSE = 100;
const RETRY = 2000;

export class Saver {
  /** `read` gives the draft as it is now; `tell` hears "saving", "saved" or "not_saved". */
  constructor(view, read, tell) {
    this.view = view;
    this.read = read;
    this.tell = tell;
    this.timer = null;
    this.running = null;
    this.isDirty = false;
    this.isStopped = false;
  }

  /** Something changed. */
  touch() {
    if (this.isStopped) return;
    this.isDirty = true;
    this.tell("saving");
    if (this.timer === null && this.running === null) this.later(AT_ONCE);
  }

  later(pause) {
    this.timer = setTimeout(() => {
      this.timer = null;
      this.running = this.send();
    }, pause);
  }

  async send() {
    this.isDirty = false;
    let pause = PAUSE;
    try {
      await request("PUT", `views/${this.view}/draft`, this.read());
      if (!this.isDirty && !this.isStopped) this.tell("saved");
    } catch (error) {
      this.isDirty = error instanceof Away;
      pause = RETRY;
      if (!this.isStopped) this.tell("not_saved");
    }
    this.running = null;
    if (this.isDirty && !this.isStopped) this.later(pause);
  }

  /** No more of this: the answer itself follows. */
  async stop() {
    this.isStopped = true;
    clearTimeout(this.timer);
    await this.running;
  }

  /** What is not sent yet goes now: the item leaves the screen without an answer. */
  async flush() {
    const mustSend = this.isDirty;
    await this.stop();
    if (mustSend) await this.send();
  }

  /** The page goes away: the browser sends it still. */
  leave() {
    if (!this.isDirty || this.isStopped) return;
    request("PUT", `views/${this.view}/draft`, this.read(), { keepalive: true }).catch(() => {});
  }
}
