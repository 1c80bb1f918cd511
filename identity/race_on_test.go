//go:build race

package identity

const raceDetector = true
