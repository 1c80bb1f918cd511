package network

import (
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Opener { return New().Open })
}
