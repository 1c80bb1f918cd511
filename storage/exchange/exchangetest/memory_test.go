package exchangetest_test

import (
	"testing"

	"github.com/caddy-tally/caddy-tally/storage/exchange"
	"github.com/caddy-tally/caddy-tally/storage/exchange/exchangetest"
)

func TestMemory(t *testing.T) {
	memory := &exchangetest.Memory{SweepRows: 30}
	exchangetest.Test(t, func(*testing.T) exchange.Exchange { return memory })
}
