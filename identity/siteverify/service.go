package siteverify

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Service is a service, with the data of its widget for pages.
type Service struct {
	Name     string   // as a config has it
	Endpoint string   // where tokens are verified
	Script   string   // fills the widget
	Class    string   // of the element that is the widget
	Field    string   // of the form that gets the token
	Sources  []string // for the page's Content-Security-Policy

	idempotent bool // may be asked twice about a token, with a key
	acts       bool // answers with the action that a token is for
	checksKey  bool // checks the site key that a token is for
	dummies    *regexp.Regexp
}

// Services returns all services.
func Services() []Service {
	return []Service{
		{
			Name:     "turnstile",
			Endpoint: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
			Script:   "https://challenges.cloudflare.com/turnstile/v0/api.js",
			Class:    "cf-turnstile",
			Field:    "cf-turnstile-response",
			Sources:  []string{"https://challenges.cloudflare.com"},

			idempotent: true,
			acts:       true,
			dummies:    regexp.MustCompile(`^[0-9]x0+[A-F]+$`),
		},
		{
			Name:     "hcaptcha",
			Endpoint: "https://api.hcaptcha.com/siteverify",
			Script:   "https://js.hcaptcha.com/1/api.js",
			Class:    "h-captcha",
			Field:    "h-captcha-response",
			Sources:  []string{"https://hcaptcha.com", "https://*.hcaptcha.com"},

			checksKey: true,
			dummies:   regexp.MustCompile(`^0x0+$|^[0-9]0000000-ffff-ffff-ffff-0+[0-9]$`),
		},
		{
			Name:     "recaptcha",
			Endpoint: "https://www.google.com/recaptcha/api/siteverify",
			Script:   "https://www.google.com/recaptcha/api.js",
			Class:    "g-recaptcha",
			Field:    "g-recaptcha-response",
			Sources: []string{"https://www.google.com/recaptcha/", "https://www.gstatic.com/recaptcha/",
				"https://recaptcha.google.com/recaptcha/"},

			dummies: regexp.MustCompile(`^6LeIxAcTAAAAA(GG-vFI1TnRWxMZNFuojJ4WifJWe|JcZVRqyHh71UMIEGNQ_MXjiZKhI)$`),
		},
	}
}

// ByName returns the service with a name.
func ByName(name string) (Service, error) {
	services := Services()
	i := slices.IndexFunc(services, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return Service{}, fmt.Errorf("siteverify: unknown service %q: expected turnstile, hcaptcha or recaptcha", name)
	}
	return services[i], nil
}

// maxKey is the maximum length of a secret or site key, in characters.
const maxKey = 256

// checkKey returns an error if a key is malformed, or one of the test keys of a service, which accept everybody.
func (s Service) checkKey(what, key string) error {
	switch {
	case key == "":
		return fmt.Errorf("siteverify: %s: %s is missing", s.Name, what)
	case len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("siteverify: %s: %s must be at most %d visible ASCII characters", s.Name, what, maxKey)
	case s.dummies.MatchString(key):
		return fmt.Errorf("siteverify: %s: %s is one for tests, which everybody passes: write one of your own",
			s.Name, what)
	}
	return nil
}
