package operator

import "fmt"

// Error says why an operator can't have what they asked for.
type Error struct {
	// Status is the HTTP status: 400 for what can't be understood, 404 for who isn't known,
	// 409 for what the configuration or the state doesn't allow, 429 for too many streams,
	// 503 while the store can't be used.
	Status int `json:"status"`
	// Message is a sentence for a person: what was wrong, and what is expected.
	Message string `json:"error"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Errorf returns an error with a status.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}
