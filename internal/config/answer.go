package config

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// Answer describes answers. An answer must meet all given criteria.
type Answer struct {
	// The statuses, from 200 to 599, or only their first digit: 4 stands for 400 to 499. Default:
	// any.
	Status []int `json:"status,omitempty"`

	// Header fields with their accepted values, of which one must be present. A `*` at the
	// beginning or the end of a value stands for any text. An empty list: the field is present;
	// null: it is absent.
	Header map[string][]string `json:"header,omitempty"`

	// The least size of the content in bytes. An answer without a Content-Length doesn't match.
	// Default: any.
	MinSize int64 `json:"min_size,omitempty"`

	// The greatest size of the content in bytes. Default: any.
	MaxSize int64 `json:"max_size,omitempty"`

	// The statuses of gRPC, from 0 to 16, in trailers, in the header, or in the body of gRPC-Web: 16 is
	// UNAUTHENTICATED. All answers that the zone counts are then known at their end. An answer without one doesn't
	// match. Default: any.
	GRPCStatus []int `json:"grpc_status,omitempty"`
}

// check returns an error if the description is invalid.
func (a *Answer) check() error {
	if len(a.Status) == 0 && len(a.Header) == 0 && a.MinSize == 0 && a.MaxSize == 0 && len(a.GRPCStatus) == 0 {
		return errors.New("it says nothing of answers: write count when header Location */login*")
	}
	for name := range a.Header {
		if err := httpfield.CheckName(name); err != nil {
			return fmt.Errorf("header: %w", err)
		}
	}
	if a.MinSize < 0 || a.MaxSize < 0 || a.MaxSize > 0 && a.MinSize > a.MaxSize {
		return fmt.Errorf("size: no answer has at least %d and at most %d bytes", a.MinSize, a.MaxSize)
	}
	for _, status := range a.GRPCStatus {
		if status < 0 || status > maxGRPCStatus {
			return fmt.Errorf("grpc_status: "+grpcStatuses, strconv.Itoa(status))
		}
	}
	return checkStatuses(a.Status)
}

// maxGRPCStatus is the highest status of gRPC (https://grpc.io/docs/guides/status-codes/).
const maxGRPCStatus = 16

const grpcStatuses = "must be numbers from 0 to 16, such as 16 for UNAUTHENTICATED, got %q"

// rule returns the description ready for use.
func (a *Answer) rule() settle.Answer {
	header := make(http.Header, len(a.Header))
	for name, values := range a.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	return settle.Answer{
		ResponseMatcher: caddyhttp.ResponseMatcher{StatusCode: a.Status, Headers: header},
		MinSize:         a.MinSize, MaxSize: a.MaxSize, GRPC: a.GRPCStatus, Text: a.String(),
	}
}

// String returns the description as in a Caddyfile, ordered by names.
func (a *Answer) String() string {
	var words []string
	if len(a.Status) > 0 {
		words = append(words, "status "+(&settle.Count{Status: a.Status}).String())
	}
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		if a.Header[name] == nil {
			name = "!" + name
		}
		words = append(words, strings.Join(append([]string{"header", name}, a.Header[name]...), " "))
	}
	if a.MinSize > 0 {
		words = append(words, fmt.Sprintf("size over %d", a.MinSize-1))
	}
	if a.MaxSize > 0 {
		words = append(words, fmt.Sprintf("size under %d", a.MaxSize+1))
	}
	if len(a.GRPCStatus) > 0 {
		words = append(words, "grpc_status "+strings.Trim(fmt.Sprint(a.GRPCStatus), "[]"))
	}
	return strings.Join(words, " ")
}

// answerWords are the words that begin the parts of a description.
var answerWords = []string{"status", "header", "size", "grpc_status"}

// parseAnswer parses the words after `count when`.
func parseAnswer(words []string) (a Answer, err error) {
	for len(words) > 0 {
		part := words[0]
		n := 1 + slices.IndexFunc(words[1:], func(w string) bool { return slices.Contains(answerWords, w) })
		if n == 0 {
			n = len(words)
		}
		if err := a.parsePart(part, words[1:n]); err != nil {
			return a, err
		}
		words = words[n:]
	}
	return a, a.check()
}

func (a *Answer) parsePart(part string, values []string) error {
	switch part {
	case "status":
		return a.parseStatuses(values)
	case "header":
		return a.parseHeader(values)
	case "size":
		return a.parseSize(values)
	case "grpc_status":
		return a.parseGRPCStatuses(values)
	}
	return fmt.Errorf("unknown word %q: write status 303, header Location */login*, size under 2KiB or grpc_status 16",
		part)
}

func (a *Answer) parseStatuses(values []string) error {
	if len(values) == 0 {
		return errors.New("status lacks its values: write status 303")
	}
	for _, word := range values {
		status, ok := parseStatus(word)
		if !ok {
			return fmt.Errorf("status: expected one from 200 to 599, or a class from 2xx to 5xx, got %q", word)
		}
		a.Status = append(a.Status, status)
	}
	return nil
}

func (a *Answer) parseGRPCStatuses(words []string) error {
	if len(words) == 0 {
		return errors.New("grpc_status lacks its values: write grpc_status 16")
	}
	for _, word := range words {
		status, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("grpc_status: "+grpcStatuses, word)
		}
		a.GRPCStatus = append(a.GRPCStatus, status)
	}
	return nil
}

func (a *Answer) parseHeader(values []string) error {
	if len(values) == 0 || len(values) > 2 {
		return fmt.Errorf("header takes a name and optionally a value, got %d: write header Location */login*, or header !Location for answers without it", len(values))
	}
	name, absent := strings.CutPrefix(values[0], "!")
	if absent && len(values) > 1 {
		return fmt.Errorf("header !%s is for answers without the field, so it takes no value, got %q", name, values[1])
	}
	if a.Header == nil {
		a.Header = make(map[string][]string)
	}
	switch given, ok := a.Header[name]; {
	case ok && (absent || given == nil || len(values) == 1):
		return fmt.Errorf("header %s is given twice: write it once", name)
	case absent:
		a.Header[name] = nil
	default:
		a.Header[name] = append(append([]string{}, given...), values[1:]...)
	}
	return nil
}

func (a *Answer) parseSize(values []string) error {
	if len(values) == 2 {
		size, err := humanize.ParseBytes(values[1])
		if n := int64(size); err == nil && n > 1 {
			switch values[0] {
			case "over":
				a.MinSize = n + 1
				return nil
			case "under":
				a.MaxSize = n - 1
				return nil
			}
		}
	}
	return fmt.Errorf("size: got %q: write size under 2KiB or size over 10KiB", strings.Join(values, " "))
}
