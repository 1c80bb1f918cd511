package dashboard_test

import (
	"context"
	"net/http"
)

// withCancel returns a request with a function that ends it, like a browser that disconnects.
func withCancel(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	return r.WithContext(ctx), cancel
}
