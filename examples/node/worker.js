// Tasks in JavaScript for a Fairway worker, one for each thing that a task can do:
//
//   fairway up --adapter node="node examples/node/worker.js"
//   echo '{"adapter": "node", "task": "add", "args": [1, 2]}' | fairway submit --file - --wait
"use strict";

const { once } = require("node:events");
const { setTimeout: pause } = require("node:timers/promises");
const { serve, PermanentFailure, RetryAfter } = require("./fairway");

const tasks = {
  add: (job, one, other) => one + other,

  where: (job) => ({ pid: process.pid, queue: job.queue, generation: job.generation }),

  /** What is printed while it runs is the job's log. */
  shout(job, text) {
    console.log(text);
    console.error(text.toUpperCase());
    process.stdout.write("no end");
  },

  /** How far it is, and where a next attempt would go on. */
  count(job, to) {
    const start = job.checkpoint ?? 0;
    for (let number = start; number < to; number++) {
      job.progress((number + 1) / to, `${number + 1} of ${to}`);
      job.save(number + 1);
    }
    job.log("counted");
    return start;
  },

  /** A job that is cancelled hears it by its signal. */
  async sleep(job, seconds) {
    console.log("sleeping");
    await pause(seconds * 1000, undefined, { signal: job.signal });
    return "rested";
  },

  /** One that does not listen is killed, with all that it has started. */
  spin(job, seconds) {
    process.on("SIGTERM", () => {});
    console.log("spinning");
    const end = Date.now() + seconds * 1000;
    while (Date.now() < end);
  },

  fail(job, message) {
    throw new TypeError(message);
  },

  refuse(job, message) {
    throw new PermanentFailure(message);
  },

  later(job, seconds) {
    throw new RetryAfter(seconds);
  },

  large: (job, length) => "x".repeat(length),

  die(job, code) {
    console.error("dying");
    process.exit(code);
  },

  async aborted(job) {
    if (!job.signal.aborted) await once(job.signal, "abort");
    return job.signal.reason;
  },
};

serve(tasks, { concurrency: Number(process.env.CONCURRENCY || 1), version: `node ${process.version}` });
