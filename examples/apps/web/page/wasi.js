// The part of the WASI that the engine needs: files in memory that are read, text for the console, a clock. Numbers and layouts
// are those of wasi_snapshot_preview1.
// SPDX-License-Identifier: MIT

const success = 0, badDescriptor = 8, noEntry = 44, notSupported = 58;
const root = 3;  // the descriptor of the folder "/", which is open from the start
const typeDirectory = 3, typeFile = 4, typeTerminal = 2;

/** The imports of a program that finds `files` (a Map from "path/without/first/slash" to its bytes) and nothing else. */
export class Wasi {
  constructor(files) {
    this.files = files;
    this.open = new Map();  // descriptor: { bytes, at }
    this.said = '';         // what the program printed
    this.memory = null;     // set it before the program runs
  }

  imports() {
    const functions = [
      'environ_get', 'environ_sizes_get', 'clock_time_get', 'fd_close', 'fd_fdstat_get', 'fd_fdstat_set_flags', 'fd_prestat_get',
      'fd_prestat_dir_name', 'fd_read', 'fd_seek', 'fd_write', 'path_open', 'proc_exit',
    ];
    return { wasi_snapshot_preview1: Object.fromEntries(functions.map((name) => [name, this[name].bind(this)])) };
  }

  // The memory moves when it grows, so a view lives for one call.
  get view() { return new DataView(this.memory.buffer); }
  bytes(at, size) { return new Uint8Array(this.memory.buffer, at, size); }
  text(at, size) { return new TextDecoder().decode(this.bytes(at, size)); }

  environ_get() { return success; }
  environ_sizes_get(count, size) {
    this.view.setUint32(count, 0, true);
    this.view.setUint32(size, 0, true);
    return success;
  }

  clock_time_get(clock, precision, at) {
    this.view.setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
    return success;
  }

  fd_prestat_get(descriptor, at) {
    if (descriptor !== root) return badDescriptor;
    this.view.setUint32(at, 0, true);
    this.view.setUint32(at + 4, 1, true);  // the length of "/"
    return success;
  }
  fd_prestat_dir_name(descriptor, at) {
    if (descriptor !== root) return badDescriptor;
    this.bytes(at, 1)[0] = '/'.charCodeAt(0);
    return success;
  }

  path_open(folder, lookup, path, size, create, rights, inheriting, flags, at) {
    const bytes = this.files.get(this.text(path, size));
    if (!bytes) return noEntry;
    let descriptor = root + 1;
    while (this.open.has(descriptor)) ++descriptor;
    this.open.set(descriptor, { bytes, at: 0 });
    this.view.setUint32(at, descriptor, true);
    return success;
  }
  fd_close(descriptor) { return this.open.delete(descriptor) ? success : badDescriptor; }

  fd_fdstat_get(descriptor, at) {
    const type = descriptor === root ? typeDirectory : descriptor < root ? typeTerminal : typeFile;
    this.bytes(at, 24).fill(0);
    this.view.setUint8(at, type);
    this.view.setBigUint64(at + 8, ~0n, true);   // all rights
    this.view.setBigUint64(at + 16, ~0n, true);
    return success;
  }
  fd_fdstat_set_flags() { return notSupported; }

  fd_read(descriptor, pieces, count, read) {
    const file = this.open.get(descriptor);
    if (!file) return badDescriptor;
    let total = 0;
    for (let k = 0; k < count; ++k) {
      const to = this.view.getUint32(pieces + 8 * k, true), size = this.view.getUint32(pieces + 8 * k + 4, true);
      const some = file.bytes.subarray(file.at, file.at + size);
      this.bytes(to, some.length).set(some);
      file.at += some.length;
      total += some.length;
    }
    this.view.setUint32(read, total, true);
    return success;
  }
  fd_seek(descriptor, offset, whence, at) {
    const file = this.open.get(descriptor);
    if (!file) return badDescriptor;
    const from = [0, file.at, file.bytes.length][whence];
    file.at = from + Number(offset);
    this.view.setBigUint64(at, BigInt(file.at), true);
    return success;
  }

  fd_write(descriptor, pieces, count, written) {
    let total = 0;
    for (let k = 0; k < count; ++k) {
      const size = this.view.getUint32(pieces + 8 * k + 4, true);
      this.said += this.text(this.view.getUint32(pieces + 8 * k, true), size);
      total += size;
    }
    this.view.setUint32(written, total, true);
    return success;
  }

  proc_exit(status) { throw new Error(this.said.trim() || `The engine ended with status ${status}.`); }
}
