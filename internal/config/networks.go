package config

import (
	"fmt"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/networks"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// The values of Zone.Per that stand for a key with a placeholder.
const (
	perASN     = "asn"
	perCountry = "country"
	perDomain  = "domain"
)

// placeholderOf has the keys that these values stand for.
var placeholderOf = map[string]string{
	perASN:     "{" + enforce.ASNPlaceholder + "}",
	perCountry: "{" + enforce.CountryPlaceholder + "}",
	perDomain:  "{" + enforce.DomainPlaceholder + "}",
}

// compileNetworks opens the files of networks.
func (c *Compiler) compileNetworks() (err error) {
	c.Run.Networks, err = networks.Acquire(c.Networks)
	return err
}

// checkNetworks returns an error about a key with a placeholder that no file has values for.
func (c *Compiler) checkNetworks(key string) error {
	for _, name := range routing.PlaceholderNames(key) {
		if err := c.Run.CheckNetworks(name == enforce.ASNPlaceholder, name == enforce.CountryPlaceholder); err != nil {
			return fmt.Errorf("per %w", err)
		}
	}
	return nil
}
