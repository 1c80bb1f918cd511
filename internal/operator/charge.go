package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// Charge is units that an application charges to a client, or gives back, outside of any request.
type Charge struct {
	// Zone is the zone whose limits are charged. The admin endpoint takes it from the path.
	Zone   string `json:"-"`
	Client string `json:"client"` // see [ParseTarget]
	// Units are how many are charged. A negative number gives back as many, at most those that charges
	// have taken and that still count.
	Units int64 `json:"units"`
	// ID makes the charge take effect once in 24 hours, however often it is sent. Sent with other units it is an
	// error. Units are given back only with one. It has at most 128 bytes, belongs to a client and a zone, and is
	// stored as a keyed hash.
	ID string `json:"id,omitempty"`
	By string `json:"-"` // as in [Command]
}

// Bounds of a charge: the bytes of an id, and the units.
const (
	maxID    = 128
	MaxUnits = 1 << 39
)

// Check returns an error if the charge is invalid whatever the config.
func (c Charge) Check() error {
	switch {
	case c.Units == 0 || c.Units > MaxUnits || c.Units < -MaxUnits:
		return Errorf(http.StatusBadRequest, "units: got %d: expected 1 to %d, or as many below 0 to give back",
			c.Units, int64(MaxUnits))
	case c.Units < 0 && c.ID == "":
		return Errorf(http.StatusBadRequest, "id: expected one, or units that are sent again would be given back again")
	case len(c.ID) > maxID:
		return Errorf(http.StatusBadRequest, "id: got %d bytes: expected at most %d", len(c.ID), maxID)
	case !utf8.ValidString(c.ID) || strings.ContainsFunc(c.ID, unicode.IsControl):
		return Errorf(http.StatusBadRequest, "id: got %q: expected no control characters", c.ID)
	}
	return nil
}

// Charged is the result of a charge. A refusal is a result, not an error.
type Charged struct {
	Zone    string `json:"zone"`
	Client  string `json:"client"`             // as understood
	Allowed bool   `json:"allowed"`            // the charge took effect, now or before
	Units   int64  `json:"units"`              // charged by this call; below 0 if given back
	Repeats bool   `json:"repeated,omitempty"` // the id had its effect before
	// allowed, or the reason of a refusal: over_limit, blocked, too_costly, banned or [TooFarBack]
	Outcome string  `json:"outcome"`
	Limit   string  `json:"limit,omitempty"`               // that refuses, or that has the fewest units left
	Left    *int64  `json:"left,omitempty"`                // its units left; missing if unknown
	Retry   Seconds `json:"retry_after_seconds,omitempty"` // when the units are free; missing if never, or if allowed
}

// TooFarBack is the outcome if the units to give back are in slots so far back that they weren't found in time.
const TooFarBack = "too_far_back"

const chargePath = "charge/"

// charge returns the endpoint of charges.
func charge(s Service) endpoint {
	return endpoint{method: http.MethodPost, answer: func(r *http.Request) (any, error) {
		zone := strings.TrimPrefix(r.URL.Path, Root+chargePath)
		return post(`{"client": "key:42", "units": 3, "id": "order-1017"}`,
			func(ctx context.Context, c Charge) (Charged, error) {
				c.Zone, c.By = zone, Admin
				return s.Charge(ctx, c)
			}).answer(r)
	}}
}

// Charge implements [Service].
func (r *Remote) Charge(ctx context.Context, charge Charge) (done Charged, err error) {
	for began := time.Now(); ; {
		done, err = tell[Charged](ctx, r, chargePath+url.PathEscape(charge.Zone), charge)
		cut := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
		if !errors.Is(err, syscall.ECONNREFUSED) && !(cut && charge.ID != "") || time.Since(began) > reloadTime {
			return done, err
		}
		select {
		case <-ctx.Done():
			return done, err
		case <-time.After(reloadTime / 20):
		}
	}
}

// reloadTime is how long a reload may keep a charge from getting a connection: the admin endpoint moves to another
// listener. A connection that ends without an answer may have charged, so without an id it isn't tried again.
const reloadTime = 2 * time.Second
