// pg-boss: insert for bulk, batches with continuous fetching while they come back full, LISTEN/NOTIFY for latency.

import { ADDRESS, countOne, load, main, writeStamp } from "./verbs.mjs";

const { PgBoss } = await load("pg-boss");

const BATCH = Number(process.env.BENCH_BATCH ?? 1000);
const LANES = Number(process.env.BENCH_CONCURRENCY ?? 2);

let boss;

async function open(options) {
  boss = new PgBoss({ connectionString: ADDRESS, useListenNotify: true, ...options });
  boss.on("error", (error) => console.error(error));
  await boss.start();
}

await main({
  async prepare() {
    await open({});
    for (const name of ["nothing", "stamp"]) await boss.createQueue(name, { notify: true });
    await boss.stop();
  },
  // A client that only sends looks after nothing.
  connect: (callers) => open({ max: Math.max(callers, 2), supervise: false, schedule: false, useListenNotify: false }),
  submitMany: (count) => boss.insert("nothing", Array.from({ length: count }, () => ({ data: {} }))),
  submit: () => boss.send("nothing", {}),
  submitStamp: () => boss.send("stamp", {}),
  getReady: () => open({}),
  async work() {
    const options = { batchSize: BATCH, burstWhenBatchFull: true, localConcurrency: LANES };
    await boss.work("nothing", options, async (jobs) => jobs.forEach(countOne));
    await boss.work("stamp", {}, async () => writeStamp());
    return () => boss.stop({ graceful: true, timeout: 5000 });
  },
});
