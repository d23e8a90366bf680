// Runs the engine beside the page, so that the page stays quick. A message is { id, name, value }; the answer is { id, value } or
// { id, error }. While files are fetched, { loaded, total } tells how far it is, in bytes.
// SPDX-License-Identifier: MIT
import { Engine } from './engine.js';

const names = ['models/target.bin', 'models/draft.bin', 'models/tokenizer.bin'];
let engine;

/** Fetches the engine and its models, and tells how many bytes have come. */
async function fetchAll() {
  const answers = await Promise.all(['engine.wasm', ...names].map((name) => fetch(new URL(name, import.meta.url))));
  for (const answer of answers)
    if (!answer.ok) throw new Error(`${new URL(answer.url).pathname} cannot be loaded: ${answer.status}`);
  // A server that compresses tells another length than arrives, so the end counts as reached where more comes.
  const total = answers.reduce((sum, { headers }) => sum + Number(headers.get('content-length') ?? 0), 0);
  let loaded = 0;
  const all = await Promise.all(answers.map(async (answer) => {
    const pieces = [];
    const reader = answer.body.getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      pieces.push(next.value);
      loaded += next.value.length;
      postMessage({ loaded, total: Math.max(loaded, total) });
    }
    return new Uint8Array(await new Blob(pieces).arrayBuffer());
  }));
  return [all[0], new Map(names.map((name, k) => [name, all[k + 1]]))];
}

const functions = {
  async load() {
    engine = await Engine.start(...await fetchAll());
    // The browser compiles once more what runs often: only then its speed is worth measuring.
    const some = { prompt: 'The', temperature: 1, rule: 'block', drafter: 'model', tokens: 24, seed: 1 };
    engine.timeAlone(some);
    engine.write({ ...some, gamma: 3, automatic: false });
    return engine.models;
  },
  // At one go, and the target alone before and after it, so that the times can be compared.
  write: (settings) => {
    const before = engine.timeAlone(settings), blocks = engine.write(settings);
    return { blocks, alone: (before + engine.timeAlone(settings)) / 2 };
  },
};

onmessage = async ({ data: { id, name, value } }) => {
  try {
    postMessage({ id, value: await functions[name](value) });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};
