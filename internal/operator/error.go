package operator

import "fmt"

// Error is the reason why an operator's request fails.
type Error struct {
	// Status is the HTTP status: 400 for an invalid request, 404 for an unknown client, 409 for a
	// conflict with the configuration or the state, 429 for too many streams, 503 while the store
	// can't be used.
	Status int `json:"status"`
	// Message is a sentence for a person: the problem, and the expected request.
	Message string `json:"error"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Errorf returns an error with a status.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}
