// Package proposal proposes limits for the sites of a config, in shadow, and writes them into a Caddyfile.
//
//	sites       the sites of a Caddyfile, or of a running config        site.go
//	people      who of a log's clients decides, and what few is         people.go
//	traffic     what the people of a log use of each site               traffic.go
//	crowds      zones of recipes for what many networks ask for         crowd.go
//	candidates  zones: of programs, of sign-ins, of the traffic         zone.go, programs.txt
//	fit         amounts for what most of the people want                demand.go, internal/replay
//	settle      zones that the config's checks warn of are left out     draft.go
//	insert      the Caddyfile with the zones, and without their shadow  edit.go
//
// A proposal is loaded as the config that it will be, and the log is replayed with that config: what it
// would do isn't guessed.
package proposal
