// Package matcher has matchers that no spelling of a request gets around. [Endpoint] matches every
// request that a backend may take for one of an endpoint. [ForLimit], [ForTrap] and [ForExemption]
// adapt Caddy's own matchers, and those inside "not", to what they are for: a limit matches too much
// rather than too little, an exemption the reverse. [CheckSets] and [Safer] find matchers that miss
// what they are meant for.
package matcher
