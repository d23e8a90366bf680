// Asks the worker, and waits for its answers.
// SPDX-License-Identifier: MIT

export class Client {
  #worker = new Worker(new URL('worker.js', import.meta.url), { type: 'module' });
  #waiting = new Map();  // id: { resolve, reject }
  #count = 0;

  /** `onLoading(share)` is told how much of the models has come, from 0 to 1. */
  constructor(onLoading) {
    this.#worker.onmessage = ({ data }) => {
      if (data.total !== undefined) return onLoading(data.loaded / data.total);
      const { resolve, reject } = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if (data.error === undefined) resolve(data.value);
      else reject(new Error(data.error));
    };
    this.#worker.onerror = (event) => {
      const error = new Error(event.message || 'The engine cannot be loaded: it needs a browser of 2023 or later.');
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    };
  }

  ask(name, value) {
    return new Promise((resolve, reject) => {
      const id = ++this.#count;
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, name, value });
    });
  }
}
