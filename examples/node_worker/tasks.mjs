// The tasks that this worker offers, by name.

// `await job.model(...)` is a model call that the server makes, holds money for and journals.
export async function summarise(job, { text }) {
  job.progress(`summarising ${text.length} characters`);
  return { summary: await job.model('claude-haiku-4-5', `In one sentence: ${text}`, { max_tokens: 100 }) };
}
