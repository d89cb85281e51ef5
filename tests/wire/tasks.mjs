// What the worker on Node does in the tests.

import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

export async function picture(job, { draw }) {
  if (draw === 'badly') throw Object.assign(new Error('no pencil'), { error_class: 'validation' });
  const said = await job.model('claude-haiku-4-5', `draw ${draw}`, { max_tokens: 100 });
  return { said, node: process.version };
}

export async function hold(job, { begun, go }) {
  appendFileSync(begun, `${process.pid} ${job.id}\n`);
  while (!existsSync(go)) {
    await sleep(10);
    if (job.signal.aborted) {
      appendFileSync(begun, `cancelled ${process.pid} ${job.id}\n`);
      throw job.signal.reason;
    }
  }
  return { pid: process.pid };
}
