// A Holdfast worker on Node. It executes the tasks of a module for `holdfast serve --grpc`, over one bidirectional stream.
//
//   node worker.mjs HOST:PORT[,HOST:PORT] ./tasks.mjs      environment: HOLDFAST_TOKEN, HOLDFAST_CA, WORKER_NAME, SLOTS
//
// It needs no database and no provider's key: the server makes and records model and tool calls (job.model, job.tool). A
// task is an async function of a job and its JSON arguments. It returns the output.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const proto = fileURLToPath(new URL('../../src/holdfast/wire/wire.proto', import.meta.url));
const { Workers } = grpc.loadPackageDefinition(
  loadSync(proto, { keepCase: true, longs: Number, defaults: true, oneofs: true }),
).holdfast.v1;

const BACKOFF_MS = [50, 100, 200, 500, 1000, 2000, 5000];
const env = process.env;
const [addresses, file] = [(process.argv[2] ?? '').split(','), process.argv[3]];
if (!addresses[0] || !file) {
  console.error('usage: node worker.mjs HOST:PORT[,HOST:PORT] ./tasks.mjs');
  process.exit(2);
}
const tasks = await import(pathToFileURL(resolve(file)));
const me = { name: env.WORKER_NAME ?? `${hostname()}:${process.pid}`, instance: randomUUID(), slots: Number(env.SLOTS ?? 4) };
const say = (words) => console.error(words);

const jobs = new Map(); // running jobs by id
const results = new Map(); // results that the server has not confirmed yet
const calls = new Map(); // calls without an answer: the message and its promise
let stream = null; // the open stream; messages without one are sent on the next
let draining = false;

const tell = (message) => stream?.write(message);

class Job {
  #calls = 0;
  #stop = new AbortController();

  constructor({ job, task, pools }) {
    Object.assign(this, { id: job, task, pools, signal: this.#stop.signal });
  }

  // Makes a model call through the server, with the run's money, and returns the text.
  model(model, user, { system = '', max_tokens = 0, temperature } = {}) {
    return this.#call({ model: { model, system, max_tokens, user_json: JSON.stringify(user), temperature } });
  }

  // Calls a tool that the node lists through the server, and returns its result.
  tool(name, args = {}, { key = '' } = {}) {
    return this.#call({ tool: { name, arguments_json: JSON.stringify(args), key } });
  }

  progress(text) { tell({ progress: { job: this.id, text } }); }

  stop(reason) { this.#stop.abort(new Error(reason)); }

  // Calls are numbered. In a later attempt the same number returns the recorded result, so keep their order.
  #call(asked) {
    const number = ++this.#calls;
    return new Promise((fulfil, reject) => {
      const call = { job: this.id, number, ...asked };
      calls.set(`${this.id} ${number}`, { call, fulfil, reject });
      tell({ call });
    });
  }
}

async function work(assign) {
  const body = tasks[assign.task];
  if (jobs.has(assign.job) || results.has(assign.job)) return tell({ ack: { job: assign.job } });
  if (draining || !body) return tell({ ack: { job: assign.job, declined: draining ? 'It is stopping.' : 'No such task.' } });
  const job = new Job(assign);
  jobs.set(job.id, job);
  tell({ ack: { job: job.id } });
  const result = { job: job.id };
  try {
    result.output_json = JSON.stringify((await body(job, JSON.parse(assign.arguments_json))) ?? null);
  } catch (problem) {
    const { error_class = 'error', retryable = true, call = 0 } = problem ?? {};
    result.failure = { error_class, message: String(problem?.message ?? problem), retryable, call };
  }
  jobs.delete(job.id);
  for (const key of calls.keys()) if (key.startsWith(`${job.id} `)) calls.delete(key);
  if (job.signal.aborted) return leaveIfDone();
  results.set(job.id, result);
  tell({ result });
}

function answered({ job, number, failure, value_json }) {
  const waiting = calls.get(`${job} ${number}`);
  calls.delete(`${job} ${number}`);
  if (failure) waiting?.reject(Object.assign(new Error(failure.message), failure, { call: number }));
  else waiting?.fulfil(JSON.parse(value_json));
}

const heard = {
  assign: work,
  answer: answered,
  taken: ({ job }) => results.delete(job) && leaveIfDone(),
  cancel: ({ job, reason }) => (results.delete(job), jobs.get(job)?.stop(reason)),
};

function leaveIfDone() {
  if (draining && !jobs.size && !results.size) stream?.end();
}

// Runs one stream, and resolves with the reason for its end.
function connect(address) {
  const credentials = env.HOLDFAST_CA ? grpc.credentials.createSsl(readFileSync(env.HOLDFAST_CA)) : grpc.credentials.createInsecure();
  const client = new Workers(address, credentials);
  const metadata = new grpc.Metadata();
  if (env.HOLDFAST_TOKEN) metadata.set('authorization', `Bearer ${env.HOLDFAST_TOKEN}`);
  const opened = client.Work(metadata);
  opened.write({ register: { ...me, tasks: Object.keys(tasks), jobs: [...jobs.keys(), ...results.keys()] } });
  return new Promise((ended) => {
    let watch, lastHeard;
    const end = (why) => (clearInterval(watch), (stream = null), opened.cancel(), client.close(), ended(why));
    opened.on('error', (problem) => end(problem.details || problem.message));
    opened.on('end', () => end('the server ended it'));
    const begin = ({ lease_s, heartbeat_s }) => {
      stream = opened;
      say(`Connected to ${address} as ${me.name}.`);
      for (const result of results.values()) tell({ result });
      for (const { call } of calls.values()) tell({ call });
      watch = setInterval(() => {
        tell({ heartbeat: {} });
        if (performance.now() - lastHeard > lease_s * 1000) end('the server is silent');
      }, Math.min(heartbeat_s, lease_s / 4) * 1000);
    };
    const here = { ...heard, registered: begin, refused: ({ reason }) => end(reason) };
    opened.on('data', (message) => {
      lastHeard = performance.now();
      for (const each of [message, ...message.more]) here[each.said]?.(each[each.said]);
    });
  });
}

process.once('SIGTERM', () => ((draining = true), tell({ drain: {} }), leaveIfDone()));
for (let tries = 0; !(draining && !jobs.size && !results.size); tries++) {
  const began = performance.now();
  say(`Not connected: ${await connect(addresses[tries % addresses.length])}.`);
  if (performance.now() - began > 5000) tries = 0;
  if (!draining) await sleep(BACKOFF_MS[Math.min(tries, BACKOFF_MS.length - 1)]);
}
