package tally

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// zoneSetup is a zone that is being provisioned, with what that takes.
type zoneSetup struct {
	*Zone
	ctx    caddy.Context
	app    *App
	survey *survey
	log    *zap.Logger
}

// warn warns of something in the zone.
func (z *zoneSetup) warn(problem, write string) { z.Zone.warn(z.log, problem, write) }

// mistake returns an error about something in the zone that Caddy accepts and that
// can't be meant. A zone in the words of mholt/caddy-ratelimit is accepted all the
// same, with a warning.
func (z *zoneSetup) mistake(err error) error {
	if err == nil || z.hasOwnWords() {
		return err
	}
	problem, write, _ := strings.Cut(err.Error(), ": write ")
	z.warn(problem, write)
	return nil
}
