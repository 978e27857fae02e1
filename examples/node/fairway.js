// The warm protocol for Node, version 1 (docs/reference/warm.md): no packages, copy it into your project.
//
//   const { serve } = require("./fairway");
//   serve({ async resize(job, path, width) { ... } }, { concurrency: 10 });
//
// A task gets the job (id, attempt, queue, checkpoint, signal; progress(), save(), log()) and its arguments;
// named arguments, if there are any, come as one object at the end.
"use strict";

const fs = require("node:fs");
const net = require("node:net");

const PROTOCOL = 1;
const MOST_VALUE_BYTES = 1024 * 1024;

/** The job fails for good: no new attempt would help. */
class PermanentFailure extends Error {}

/** A new attempt, in so many seconds. */
class RetryAfter extends Error {
  constructor(seconds, message = `try again in ${seconds} s`) {
    super(message);
    this.seconds = seconds;
  }
}

/** Run tasks until the worker is done with us. */
function serve(tasks, { concurrency = 1, version = "" } = {}) {
  const running = new Map();
  const announced = Object.keys(tasks).map((name) => ({ name, signature: signature(tasks[name]) }));
  readLines((message) => {
    if (message.run) run(tasks, message.run, running);
    else if (message.cancel) running.get(keyOf(message.cancel))?.abort(message.cancel.reason);
    else if (message.exit) process.exit(0);
    // Anything else is of a newer worker and not meant for us.
  });
  write({ ready: { protocol: PROTOCOL, tasks: announced, version, concurrency } });
}

async function run(tasks, order, running) {
  const abort = new AbortController();
  running.set(keyOf(order), abort);
  const name = { job: order.job, attempt: order.attempt };
  let result;
  try {
    const named = Object.keys(order.kwargs).length ? [order.kwargs] : [];
    if (!Object.hasOwn(tasks, order.task)) throw new PermanentFailure(`no task ${order.task}`);
    const value = await tasks[order.task](makeJob(order, name, abort.signal), ...order.args, ...named);
    result = { ...name, ok: true, value: check(value) };
  } catch (error) {
    result = { ...name, ok: false, error: describe(error) };
  }
  running.delete(keyOf(order));
  write({ result });
}

/** What a task holds of its job. */
function makeJob(order, name, signal) {
  return {
    id: order.job,
    attempt: order.attempt,
    queue: order.queue,
    generation: order.generation,
    checkpoint: order.checkpoint,
    signal, // aborted when the job is to end
    progress: (fraction, text = "") => write({ progress: { ...name, fraction, text } }),
    save: (value) => write({ checkpoint: { ...name, value } }),
    log: (text) => write({ log: { ...name, text: String(text) } }),
  };
}

function check(value) {
  const text = JSON.stringify(value ?? null);
  if (text === undefined) throw new PermanentFailure(`a ${typeof value} is not JSON`);
  const bytes = Buffer.byteLength(text);
  if (bytes > MOST_VALUE_BYTES) throw new Error(`the value has ${bytes} bytes; the most is ${MOST_VALUE_BYTES}`);
  return value ?? null;
}

function describe(thrown) {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  return {
    type: error.constructor.name,
    message: error.message,
    traceback: String(error.stack).slice(0, 20_000),
    permanent: error instanceof PermanentFailure,
    retry_after: error instanceof RetryAfter ? error.seconds : null,
  };
}

function signature(task) {
  const found = /\(([^]*?)\)\s*(\{|=>)/.exec(String(task));
  return found ? `(${found[1].replace(/^\s*\w+\s*,?\s*/, "")})` : "";
}

const keyOf = ({ job, attempt }) => `${job}/${attempt}`;

// --- the two pipes: never stdin and stdout, which are the job's own -------------------------------------
const writer = Number(process.env.FAIRWAY_WRITE_FD);

/** Write one line, whole and at once: nothing is lost if the process ends right after it. */
function write(message) {
  const line = Buffer.from(JSON.stringify(message) + "\n");
  for (let at = 0; at < line.length; ) at += fs.writeSync(writer, line, at);
}

function readLines(take) {
  const pipe = new net.Socket({ fd: Number(process.env.FAIRWAY_READ_FD), readable: true, writable: false });
  let rest = [];
  pipe.setEncoding("utf8");
  pipe.on("data", (chunk) => {
    const lines = chunk.split("\n");
    rest.push(lines[0]);
    if (lines.length === 1) return;
    const whole = [rest.join(""), ...lines.slice(1, -1)];
    rest = [lines.at(-1)];
    for (const line of whole) if (line) take(JSON.parse(line));
  });
  pipe.on("end", () => process.exit(0)); // the worker is gone
}

module.exports = { serve, PermanentFailure, RetryAfter };
