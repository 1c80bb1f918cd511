package dashboard_test

import (
	"context"
	"net/http"
)

// withCancel returns a request that a function ends, as a browser does that goes away.
func withCancel(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	return r.WithContext(ctx), cancel
}
