//go:build race

package crash

// Under the race detector the workers are built with it too.
const raceDetector = true
