//go:build race

package crash

// raceDetector means that the workers are built with -race too.
const raceDetector = true
