#!/usr/bin/env node
// Counts the words of a text and writes a report. handler: {exec: [node, exec.js], env: [PAUSE]}
"use strict";
const fs = require("node:fs/promises");
const { readFileSync } = require("node:fs");
const { setTimeout: pause } = require("node:timers/promises");

class NoSuchText extends Error {}

const say = (what) => console.log(JSON.stringify(what));

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
      if (percent > told) say({ progress: (told = percent), note: `${words} words` });
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
process.once("SIGTERM", () => stop.abort()); // hipq sends it at the timeout, and when its worker must end

count(JSON.parse(readFileSync(0, "utf8")), stop.signal).then(
  (words) => say({ outcome: "finished", result: { words } }),
  (error) => {
    if (stop.signal.aborted) {
      say({ outcome: "retry", error: "told to stop" });
      process.exitCode = 75;
    } else if (error instanceof NoSuchText) {
      console.log(error.message);
      process.exitCode = 65; // a retry won't help
    } else {
      throw error; // exits with 1, and is retried
    }
  },
);
