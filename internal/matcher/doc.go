// Package matcher has matchers that can't be bypassed by spellings of a request. [Endpoint] matches
// every request that a backend may read as one of an endpoint. [ForLimit], [ForTrap] and
// [ForExemption] adapt Caddy's own matchers, and those inside "not", to their purpose: in doubt a
// limit matches, and an exemption doesn't. [CheckSets] and [Safer] find matchers that fail their
// purpose.
package matcher
