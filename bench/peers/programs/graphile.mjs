// graphile-worker: addJobs for bulk. As it comes, or with the settings of its own performance page
// (local queue, batched completion) when BENCH_BEST is set.

import { ADDRESS, block, countOne, load, main, writeStamp } from "./verbs.mjs";

const { Logger, makeWorkerUtils, run, runMigrations } = await load("graphile-worker");

const BEST = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
const quiet = new Logger(() => () => {});
const shared = { connectionString: ADDRESS, logger: quiet };
const taskList = {
  nothing: async () => countOne(),
  stamp: async () => writeStamp(),
  rest: async ({ millis }) => {
    block(millis);
    writeStamp();
  },
};
const preset = { worker: process.env.BENCH_BEST ? BEST : {} };

let utils;

await main({
  prepare: () => runMigrations(shared),
  async connect(callers) {
    utils = await makeWorkerUtils({ ...shared, maxPoolSize: Math.max(callers, 2) });
  },
  submitMany: (count) =>
    utils.addJobs(Array.from({ length: count }, () => ({ identifier: "nothing", payload: {} }))),
  submitFlood: (count, millis) =>
    utils.addJobs(Array.from({ length: count }, () => ({ identifier: "rest", payload: { millis } }))),
  submit: () => utils.addJob("nothing", {}),
  submitStamp: () => utils.addJob("stamp", {}),
  // The schema is there and the code loaded; it connects when it begins.
  getReady: () => runMigrations(shared),
  async work() {
    const runner = await run({ preset, ...shared, taskList, noHandleSignals: true });
    return () => runner.stop();
  },
});
