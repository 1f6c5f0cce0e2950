package guard

// WorkerVariable holds the worker's id in the environment of programs and of what they start, so that they can be
// found.
const WorkerVariable = "HIPQ_WORKER_ID"
