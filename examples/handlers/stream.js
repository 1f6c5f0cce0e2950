#!/usr/bin/env node
// Counts the words of texts and writes a report for each, several at once.
// handler: {stream: [node, stream.js], processes: 1, in_flight: 4, env: [PAUSE]}
"use strict";
const fs = require("node:fs/promises");
const readline = require("node:readline");
const { setTimeout: pause } = require("node:timers/promises");

class NoSuchText extends Error {}

const say = (job, what) => process.stdout.write(JSON.stringify({ id: job.id, token: job.token, ...what }) + "\n");

const count = async (job, signal) => {
  const file = String(job.job_data?.file ?? "");
  const report = `report-${job.id}.txt`;
  if (job.attempt > 1) { // an earlier attempt was killed or told to stop, at an unknown point
    for (const left of await fs.readdir(".")) {
      if (left.startsWith(`report-${job.id}.`) && left.endsWith(".part")) await fs.unlink(left);
    }
    const done = await fs.readFile(report, "utf8").catch(() => null);
    if (done !== null) return parseInt(done); // it had done everything but report it
  }
  const text = await fs.open(file).catch((error) => {
    throw error.code === "ENOENT" ? new NoSuchText(`no such text: ${file}`) : error;
  });
  const part = `report-${job.id}.${job.attempt}.part`;
  try {
    await fs.writeFile(part, "", { flag: "wx" });
    const { size } = await text.stat();
    let words = 0, read = 0, told = 0;
    for await (const line of text.readLines()) {
      words += line.match(/\S+/g)?.length ?? 0;
      read += Buffer.byteLength(line) + 1;
      await pause(1000 * (process.env.PAUSE ?? 0), null, { signal }); // simulates slow work
      const percent = Math.min(100, Math.floor((read * 100) / size));
      if (percent > told) say(job, { progress: (told = percent), note: `${words} words` });
    }
    await fs.writeFile(part, `${words} words in ${file}\n`);
    await fs.rename(part, report); // atomically
    return words;
  } finally {
    await text.close();
    await fs.rm(part, { force: true });
  }
};

const stop = new AbortController();
const jobs = readline.createInterface({ input: process.stdin });
process.once("SIGTERM", () => { // hipq sends it at a job's timeout, and when its worker must end
  console.error("told to stop");
  stop.abort();
  jobs.close();
});

jobs.on("line", async (line) => { // ends when hipq has no more jobs
  const job = JSON.parse(line);
  try {
    say(job, { outcome: "finished", result: { words: await count(job, stop.signal) } });
  } catch (error) {
    if (!(error instanceof NoSuchText || stop.signal.aborted)) console.error(error); // the log, kept with the attempt
    say(job, { outcome: error instanceof NoSuchText ? "failed" : "retry", error: error.message });
  }
});
