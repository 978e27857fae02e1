// The verbs every Node peer's program understands; the same as in verbs.py, timed the same way.

import { appendFileSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

export const ADDRESS = process.env.BENCH_ADDRESS;
const WITNESS = process.env.BENCH_WITNESS;
const BULK = 5000; // jobs a bulk call
const WARM_UP = 5;
let executed = 0;

// The packages stand in a folder of their own, not above this file.
export async function load(name) {
  const require = createRequire(process.env.BENCH_NODE_MODULES + "/../");
  return import(pathToFileURL(require.resolve(name)).href);
}

export function countOne() {
  executed += 1;
}

// Holds the process for so long, as sleeping code does.
export function block(millis) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, millis);
}

// Node's hrtime is CLOCK_MONOTONIC, as Python's monotonic_ns.
export function writeStamp() {
  const moment = process.hrtime.bigint();
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(moment);
  appendFileSync(WITNESS, bytes);
}

export async function main(peer) {
  const [verb, ...numbers] = process.argv.slice(2);
  await VERBS[verb](peer, ...numbers.map(Number));
  process.exit(0);
}

async function prepare(peer) {
  await peer.prepare();
  answer(null);
}

async function fill(peer, count) {
  await peer.connect(1);
  await timed(async () => {
    for (let first = 0; first < count; first += BULK) {
      await peer.submitMany(Math.min(BULK, count - first));
    }
  });
}

async function flood(peer, count, millis) {
  await peer.connect(1);
  await timed(() => peer.submitFlood(count, millis));
}

async function single(peer, count, callers) {
  await peer.connect(callers);
  const each = Math.floor(count / callers);
  await timed(async () => {
    const caller = async () => {
      for (let number = 0; number < each; number += 1) await peer.submit();
    };
    await Promise.all(Array.from({ length: callers }, caller));
  });
}

async function latency(peer, samples) {
  await peer.connect(1);
  const before = statSync(WITNESS).size;
  const taken = [];
  for (let number = 1; number <= samples + WARM_UP; number += 1) {
    const sent = process.hrtime.bigint();
    await peer.submitStamp();
    await sizeOf(before + 8 * number);
    const began = readFileSync(WITNESS).subarray(-8).readBigUInt64BE();
    taken.push(Number(began - sent) / 1e6);
    await sleep(10 + Math.random() * 10);
  }
  answer(taken.slice(WARM_UP));
}

async function work(peer) {
  const stopped = new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, resolve);
  });
  await peer.getReady();
  console.log("ready");
  const lines = createInterface({ input: process.stdin });
  await new Promise((resolve) => lines.once("line", resolve));
  const end = await peer.work();
  await stopped;
  await end();
  console.log(`executed ${executed}`);
}

async function sizeOf(size) {
  const deadline = Date.now() + 60_000;
  while (statSync(WITNESS).size < size) {
    if (Date.now() > deadline) throw new Error("a stamp did not come in 60 s");
    await sleep(1);
  }
}

async function timed(act) {
  const started = process.hrtime.bigint();
  const before = process.cpuUsage();
  await act();
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  const { user, system } = process.cpuUsage(before);
  answer([seconds, (user + system) / 1e6]);
}

function answer(value) {
  console.log(JSON.stringify(value));
}

const VERBS = { prepare, fill, flood, single, latency, work };
