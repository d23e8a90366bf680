// The engine, compiled from C++: loads it with its models, and calls what engine/exports.cpp offers. It needs no page, so that
// tests can use it, too.
// SPDX-License-Identifier: MIT
import { Wasi } from './wasi.js';

/** The numbers of web::RuleKind and web::DrafterKind. */
export const rules = ['block', 'token', 'sample-match'];
export const drafters = ['model', 'suffix'];

/** The milliseconds that a text took: for a token, and on average for a target call and for its draft. Two kinds of calls do not
    count: the first, because it reads the prompt, and the slowest tenth, when the machine did something else. */
export function milliseconds(blocks) {
  const calls = blocks.slice(1).map(({ ms }, k) => {
    const before = blocks[k].ms;
    const [target, draft, verify] = ['target', 'draft', 'verify'].map((part) => ms[part] - before[part]);
    return { target, draft, all: target + draft + verify };
  });
  const counted = calls.sort((a, b) => a.all - b.all).slice(0, Math.ceil(0.9 * calls.length));
  const mean = (part) => counted.reduce((sum, call) => sum + call[part], 0) / counted.length;
  const tokens = blocks.at(-1).tokens - blocks[0].tokens;
  return { token: mean('all') * calls.length / tokens, call: mean('target'), draft: mean('draft') };
}

export class Engine {
  /** `files`: a Map from "models/target.bin" and so on to the bytes. */
  static async start(code, files) {
    const wasi = new Wasi(files);
    const { instance } = await WebAssembly.instantiate(code, wasi.imports());
    wasi.memory = instance.exports.memory;
    const engine = new Engine(wasi, instance.exports);
    engine.call('_initialize');
    engine.models = engine.ask('load');
    return engine;
  }

  constructor(wasi, functions) {
    this.wasi = wasi;
    this.functions = functions;
  }

  /** Begins a text. Throws an Error with a sentence where the prompt cannot be used. */
  begin({ prompt, temperature, rule, drafter, gamma, automatic, tokens, seed }) {
    const bytes = new TextEncoder().encode(prompt);
    const room = this.call('room_for_prompt', bytes.length);
    new Uint8Array(this.wasi.memory.buffer, room, bytes.length).set(bytes);
    const begun = this.ask('begin', temperature, rules.indexOf(rule), drafters.indexOf(drafter), gamma, automatic ? 1 : 0, tokens,
      seed);
    if (begun.error) throw new Error(begun.error);
    return begun;
  }

  /** Writes the next block: see Writer::write_block in engine/writer.hpp. */
  step() { return this.ask('step'); }

  /** Writes a whole text. */
  write(settings) {
    this.begin(settings);
    const blocks = [];
    while (!blocks.at(-1)?.done) blocks.push(this.step());
    return blocks;
  }

  /** Writes a text of a few tokens by the target alone. Returns the milliseconds a token. */
  timeAlone(settings) {
    return milliseconds(this.write({ ...settings, tokens: Math.min(settings.tokens, 48), gamma: 0, automatic: false })).token;
  }

  ask(name, ...values) {
    const at = this.call(name, ...values);
    const memory = new Uint8Array(this.wasi.memory.buffer);
    return JSON.parse(this.wasi.text(at, memory.indexOf(0, at) - at));
  }

  // A program without exceptions prints what is wrong, and stops.
  call(name, ...values) {
    try {
      return this.functions[name](...values);
    } catch (error) {
      throw this.wasi.said ? new Error(this.wasi.said.trim(), { cause: error }) : error;
    }
  }
}
