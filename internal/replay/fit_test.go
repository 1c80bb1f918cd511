package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A fit refuses no honest client, not even the one in a thousand that a suggestion would refuse. A scraper is
// none of them.
func TestFitIsForAllHonestClients(t *testing.T) {
	var log strings.Builder
	for i := range 3000 {
		log.WriteString(line(time.Duration(i)*time.Second, fmt.Sprintf("10.0.%d.%d", i%1500/250, i%250), "GET", "/", 200, "Mozilla/5.0"))
	}
	for range 18 {
		log.WriteString(line(time.Hour, "10.1.0.1", "GET", "/", 200, "Mozilla/5.0")) // in a hurry
	}
	for i := range 30 {
		for range 20 {
			log.WriteString(line(time.Hour+time.Duration(i)*100*time.Millisecond, "10.1.0.2", "GET", "/", 200, "scraper")) // a scraper
		}
	}
	report := replayed(t, newCounter(t, 5, time.Minute), Options{Suggest: true}, log.String())
	if len(report.Limits) != 1 || report.Limits[0].Fit == nil {
		t.Fatalf("got %+v", report.Limits)
	}
	fit := *report.Limits[0].Fit
	if want := (Fit{Honest: 1501, Others: 1, Most: 18, Amount: 50}); fit != want {
		t.Errorf("got %+v, want %+v", fit, want)
	}
}
