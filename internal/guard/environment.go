package guard

// WorkerVariable is where a program, and what it starts, has its worker's id in the environment: by it the programs of a
// worker are found.
const WorkerVariable = "HIPQ_WORKER_ID"
